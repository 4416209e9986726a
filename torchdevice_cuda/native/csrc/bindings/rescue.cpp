// Functions of torch's C++ that get a second chance where they raise, at no cost where they do not.
//
// A wrapper in Python costs a frame on every call, and another object in a function's place is one that TorchScript,
// torch.compile and pickles do not know. So the object stays, its hash too (which is of the C function that it holds),
// and what changes is the entry by which the interpreter calls it.
#include <array>
#include <unordered_map>
#include <utility>

#include "bindings/module.h"

namespace hostdevice {
namespace {

struct Rescued {
  py::object handler;  // handler(function, args, kwargs): a result, or NotImplemented
  newfunc make = nullptr;
};

// By function, which is held for ever; touched with the GIL held. Never destroyed: the interpreter ends before it
// would.
std::unordered_map<PyObject*, Rescued>& rescued() {
  static auto* const all = new std::unordered_map<PyObject*, Rescued>();
  return *all;
}

PyCFunctionWithKeywords keywords(const PyMethodDef* definition) {
  return reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void*>(definition->ml_meth));
}

// After an error: what the handler makes of the call, or the error as it was.
PyObject* second_try(PyObject* function, PyObject* args, PyObject* kwargs) {
  const py::object handler = rescued()[function].handler;
  if (handler.is_none()) return nullptr;  // a method that was bound to its tensor before that ended
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* result = PyObject_CallFunctionObjArgs(
      handler.ptr(), function, args, kwargs == nullptr ? Py_None : kwargs, static_cast<PyObject*>(nullptr));
  if (result == Py_NotImplemented) {
    Py_DECREF(result);
    PyErr_Restore(type, value, traceback);
    return nullptr;
  }
  // What the handler raised is about the request as it was meant: it is what the program is to see.
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return result;
}

// The arguments of a call as a function of C takes them.
struct Packed {
  py::object args, kwargs;

  Packed(PyObject* const* given, size_t flags, PyObject* names) {
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    args = py::reinterpret_steal<py::object>(PyTuple_New(count));
    for (Py_ssize_t i = 0; args && i < count; i++) PyTuple_SET_ITEM(args.ptr(), i, Py_NewRef(given[i]));
    if (!args || names == nullptr) return;
    kwargs = py::reinterpret_steal<py::object>(PyDict_New());
    for (Py_ssize_t i = 0; kwargs && i < PyTuple_GET_SIZE(names); i++)
      if (PyDict_SetItem(kwargs.ptr(), PyTuple_GET_ITEM(names, i), given[count + i]) < 0) kwargs = py::object();
    if (!kwargs) args = py::object();
  }
};

// torch's functions take a tuple and a dictionary: the interpreter would make them, and so does this.
PyObject* call_function(PyObject* function, PyObject* const* given, size_t flags, PyObject* names) {
  const Packed packed(given, flags, names);
  if (!packed.args) return nullptr;
  PyObject* result = PyCFunction_Type.tp_call(function, packed.args.ptr(), packed.kwargs.ptr());
  return result != nullptr ? result : second_try(function, packed.args.ptr(), packed.kwargs.ptr());
}

// Methods are called through their definition, also once they are bound to a tensor: each has an entry of its own.
constexpr size_t kMethods = 32;

struct Method {
  PyObject* function = nullptr;
  PyMethodDef* stock = nullptr;
  PyMethodDef ours{};
};

std::array<Method, kMethods> g_methods;

template <size_t N>
PyObject* call_method(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* result = keywords(g_methods[N].stock)(self, args, kwargs);
  if (result != nullptr) return result;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const auto one = py::make_tuple(py::reinterpret_borrow<py::object>(self));
  const auto all = py::reinterpret_steal<py::object>(PySequence_Concat(one.ptr(), args));
  PyErr_Restore(type, value, traceback);
  return second_try(g_methods[N].function, all.ptr(), kwargs);
}

template <size_t... N>
constexpr std::array<PyCFunctionWithKeywords, sizeof...(N)> every_entry(std::index_sequence<N...>) {
  return {call_method<N>...};
}
constexpr auto kEntries = every_entry(std::make_index_sequence<kMethods>());

Method& entry_of(PyMethodDescrObject* method) {
  auto* const function = reinterpret_cast<PyObject*>(method);
  size_t at = 0;
  while (at < kMethods && g_methods[at].function != nullptr && g_methods[at].function != function) at++;
  if (at == kMethods) throw py::value_error("too many methods");
  Method& it = g_methods[at];
  if (it.function == nullptr) {
    it = {function, method->d_method, *method->d_method};
    it.ours.ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(kEntries[at]));
  }
  return it;
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  auto* base = type;
  while (rescued().count(reinterpret_cast<PyObject*>(base)) == 0) base = base->tp_base;
  PyObject* result = rescued()[reinterpret_cast<PyObject*>(base)].make(type, args, kwargs);
  // A subclass makes its own objects: what the base made in its place would not be one.
  return result != nullptr || type != base ? result : second_try(reinterpret_cast<PyObject*>(type), args, kwargs);
}

// Has a function's errors looked at by a handler; with none, the function is torch's own again.
void rescue(const py::object& function, const py::object& handler) {
  constexpr int kKeywords = METH_VARARGS | METH_KEYWORDS;
  PyObject* const it = function.ptr();
  const bool on = !handler.is_none();
  auto [found, is_new] = rescued().try_emplace(it);
  if (is_new) function.inc_ref();
  found->second.handler = handler;
  if (PyType_Check(it)) {
    auto* type = reinterpret_cast<PyTypeObject*>(it);
    if (is_new) found->second.make = type->tp_new;
    type->tp_new = on ? make : found->second.make;
    PyType_Modified(type);
  } else if (PyCFunction_Check(it) && (PyCFunction_GET_FLAGS(it) & kKeywords) == kKeywords) {
    reinterpret_cast<PyCFunctionObject*>(it)->vectorcall = on ? call_function : nullptr;
  } else if (
      Py_TYPE(it) == &PyMethodDescr_Type &&
      (reinterpret_cast<PyMethodDescrObject*>(it)->d_method->ml_flags & kKeywords) == kKeywords) {
    auto* method = reinterpret_cast<PyMethodDescrObject*>(it);
    Method& entry = entry_of(method);
    method->d_method = on ? &entry.ours : entry.stock;
  } else {
    throw py::type_error("neither a function of C with keywords, nor such a method, nor a type");
  }
}

}  // namespace

void bind_rescue(py::module_& m) {
  m.def("rescue", &rescue, py::arg("function"), py::arg("handler").none(true));
}

}  // namespace hostdevice
