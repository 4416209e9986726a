// Functions of torch's C++ that get a second chance where they raise, at no cost where they do not.
//
// A wrapper in Python costs a frame on every call, and another object in a function's place is one that TorchScript,
// torch.compile and pickles do not know. So the object stays, its hash too (which is of the C function that it holds),
// and what changes is the entry by which the interpreter calls it.
#include <unordered_map>

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

// After an error: what the handler makes of the call, or the error as it was.
PyObject* second_try(PyObject* function, PyObject* args, PyObject* kwargs) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const py::object handler = rescued()[function].handler;
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

vectorcallfunc g_method_call = nullptr;  // the same for all methods of this kind

PyObject* call_method(PyObject* method, PyObject* const* given, size_t flags, PyObject* names) {
  PyObject* result = g_method_call(method, given, flags, names);
  if (result != nullptr) return result;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const Packed packed(given, flags, names);
  if (!packed.args) return nullptr;
  PyErr_Restore(type, value, traceback);
  return second_try(method, packed.args.ptr(), packed.kwargs.ptr());
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
  } else if (Py_TYPE(it) == &PyMethodDescr_Type) {
    auto* method = reinterpret_cast<PyMethodDescrObject*>(it);
    if (is_new && g_method_call == nullptr) g_method_call = method->vectorcall;
    if (method->vectorcall != call_method && method->vectorcall != g_method_call) throw py::type_error("another kind");
    method->vectorcall = on ? call_method : g_method_call;
  } else {
    throw py::type_error("neither a function of C with keywords, nor such a method, nor a type");
  }
}

}  // namespace

void bind_rescue(py::module_& m) {
  m.def("rescue", &rescue, py::arg("function"), py::arg("handler").none(true));
}

}  // namespace hostdevice
