// Retries of C functions that raise, at no cost if they do not.
//
// A Python wrapper costs a frame on every call, and TorchScript, torch.compile and pickles do not know an object that
// replaces a function. So the object stays, with its hash (that of the C function that it holds); only the entry
// through which the interpreter calls it changes.
#include "rescue/rescue.h"

#include <array>
#include <unordered_map>
#include <utility>

namespace hostdevice {
namespace {

constexpr int kKeywords = METH_VARARGS | METH_KEYWORDS;

struct HandledFunction {
  // handler(function, args, kwargs or None, error or None) returns a result or NotImplemented.
  PyObject* handler = nullptr;
  newfunc stock_new = nullptr;
  bool first = false;
};

// By function, which is never released; accessed with the GIL held. Never destroyed, because the interpreter ends
// first.
std::unordered_map<PyObject*, HandledFunction>& handled_functions() {
  static auto* const all = new std::unordered_map<PyObject*, HandledFunction>();
  return *all;
}

// A reference that is released at the end of its scope.
struct OwnedReference {
  PyObject* it;
  explicit OwnedReference(PyObject* taken) : it(taken) {}
  OwnedReference(const OwnedReference&) = delete;
  OwnedReference& operator=(const OwnedReference&) = delete;
  ~OwnedReference() {
    Py_XDECREF(it);
  }
};

PyCFunctionWithKeywords keywords(const PyMethodDef* definition) {
  return reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void*>(definition->ml_meth));
}

// Return the handler's result for a call; NotImplemented if there is no handler.
PyObject* call_handler(PyObject* function, PyObject* args, PyObject* kwargs, PyObject* error) {
  PyObject* const handler = handled_functions()[function].handler;
  if (handler == nullptr)
    return Py_NewRef(Py_NotImplemented);  // a method that was bound before the handler was removed
  const OwnedReference held(Py_NewRef(handler));
  return PyObject_CallFunctionObjArgs(
      handler, function, args, kwargs == nullptr ? Py_None : kwargs, error == nullptr ? Py_None : error,
      static_cast<PyObject*>(nullptr));
}

// After an error, return the handler's result for the call, or restore the error.
PyObject* retry(PyObject* function, PyObject* args, PyObject* kwargs) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* result = call_handler(function, args, kwargs, value);
  if (result == Py_NotImplemented) {
    Py_DECREF(result);
    PyErr_Restore(type, value, traceback);
    return nullptr;
  }
  // An error of the handler is about the request as it was meant, so the program gets that one.
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return result;
}

// Call with arguments as a C function takes them.
template <typename Stock>
PyObject* call(PyObject* function, PyObject* args, PyObject* kwargs, bool first, const Stock& stock) {
  if (first) {
    PyObject* const result = call_handler(function, args, kwargs, nullptr);
    if (result != Py_NotImplemented) return result;
    Py_DECREF(result);
  }
  PyObject* const result = stock();
  return result != nullptr ? result : retry(function, args, kwargs);
}

// torch's functions take a tuple and a dictionary: create them, as the interpreter would.
template <bool first>
PyObject* call_function(PyObject* function, PyObject* const* given, size_t flags, PyObject* names) {
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  const OwnedReference args(PyTuple_New(count));
  if (args.it == nullptr) return nullptr;
  for (Py_ssize_t i = 0; i < count; i++) PyTuple_SET_ITEM(args.it, i, Py_NewRef(given[i]));
  const OwnedReference kwargs(names == nullptr ? nullptr : PyDict_New());
  if (names != nullptr) {
    if (kwargs.it == nullptr) return nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++)
      if (PyDict_SetItem(kwargs.it, PyTuple_GET_ITEM(names, i), given[count + i]) < 0) return nullptr;
  }
  return call(
      function, args.it, kwargs.it, first, [&] { return PyCFunction_Type.tp_call(function, args.it, kwargs.it); });
}

// Methods are called through their definition, even when bound to a tensor: each has its own entry.
constexpr size_t kMethods = 192;

struct Method {
  PyObject* function = nullptr;
  PyMethodDef* stock = nullptr;
  PyMethodDef ours{};
  bool first = false;
};

std::array<Method, kMethods> g_methods;

// Return the arguments of a method, its object first. Keeps the current error, if there is one.
PyObject* with_self(PyObject* self, PyObject* args) {
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  PyObject* const all = PyTuple_New(count + 1);
  if (all == nullptr) return nullptr;
  PyTuple_SET_ITEM(all, 0, Py_NewRef(self));
  for (Py_ssize_t i = 0; i < count; i++) PyTuple_SET_ITEM(all, i + 1, Py_NewRef(PyTuple_GET_ITEM(args, i)));
  return all;
}

template <size_t N>
PyObject* call_method(PyObject* self, PyObject* args, PyObject* kwargs) {
  const Method& method = g_methods[N];
  if (!method.first) {
    PyObject* const result = keywords(method.stock)(self, args, kwargs);
    if (result != nullptr) return result;
    const OwnedReference all(with_self(self, args));
    return all.it == nullptr ? nullptr : retry(method.function, all.it, kwargs);
  }
  const OwnedReference all(with_self(self, args));
  if (all.it == nullptr) return nullptr;
  return call(method.function, all.it, kwargs, true, [&] { return keywords(method.stock)(self, args, kwargs); });
}

template <size_t... N>
constexpr std::array<PyCFunctionWithKeywords, sizeof...(N)> make_entries(std::index_sequence<N...>) {
  return {call_method<N>...};
}
constexpr auto kEntries = make_entries(std::make_index_sequence<kMethods>());

// Return the entry of a method, created if it has none; null with an error set if there is no room.
Method* find_entry(PyMethodDescrObject* method) {
  auto* const function = reinterpret_cast<PyObject*>(method);
  size_t at = 0;
  while (at < kMethods && g_methods[at].function != nullptr && g_methods[at].function != function) at++;
  if (at == kMethods) {
    PyErr_SetString(PyExc_ValueError, "too many methods");
    return nullptr;
  }
  Method& it = g_methods[at];
  if (it.function == nullptr) {
    it = {function, method->d_method, *method->d_method, false};
    it.ours.ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(kEntries[at]));
  }
  return &it;
}

PyObject* create_object(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  auto* base = type;
  while (handled_functions().count(reinterpret_cast<PyObject*>(base)) == 0) base = base->tp_base;
  const HandledFunction& entry = handled_functions()[reinterpret_cast<PyObject*>(base)];
  // For a type, call the handler first for integers only, because it knows what they mean.
  if (entry.first && type == base && PyTuple_GET_SIZE(args) == 1 && PyLong_CheckExact(PyTuple_GET_ITEM(args, 0))) {
    PyObject* const known = call_handler(reinterpret_cast<PyObject*>(type), args, kwargs, nullptr);
    if (known != Py_NotImplemented) return known;
    Py_DECREF(known);
  }
  PyObject* result = entry.stock_new(type, args, kwargs);
  // A subclass creates its own objects: one that the base creates instead would not be an instance.
  return result != nullptr || type != base ? result : retry(reinterpret_cast<PyObject*>(type), args, kwargs);
}

bool is_method(PyObject* it) {
  return Py_TYPE(it) == &PyMethodDescr_Type &&
      (reinterpret_cast<PyMethodDescrObject*>(it)->d_method->ml_flags & kKeywords) == kKeywords;
}

bool is_function(PyObject* it) {
  return PyCFunction_Check(it) && (PyCFunction_GET_FLAGS(it) & kKeywords) == kKeywords;
}

// Set a handler for a function's errors; without one, restore torch's function.
PyObject* rescue(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"function", "handler", "first", nullptr};
  PyObject *it, *handler;
  int first = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|p", const_cast<char**>(names), &it, &handler, &first))
    return nullptr;
  const bool on = handler != Py_None, is_type = PyType_Check(it);
  if (!is_type && !is_function(it) && !is_method(it)) {
    PyErr_SetString(PyExc_TypeError, "neither a function of C with keywords, nor such a method, nor a type");
    return nullptr;
  }
  Method* const method = is_method(it) ? find_entry(reinterpret_cast<PyMethodDescrObject*>(it)) : nullptr;
  if (is_method(it) && method == nullptr) return nullptr;
  auto [found, is_new] = handled_functions().try_emplace(it);
  HandledFunction& entry = found->second;
  if (is_new) Py_INCREF(it);
  const OwnedReference before(std::exchange(entry.handler, on ? Py_NewRef(handler) : nullptr));
  if (is_type) {
    auto* type = reinterpret_cast<PyTypeObject*>(it);
    if (is_new) entry.stock_new = type->tp_new;
    entry.first = first != 0;
    type->tp_new = on ? create_object : entry.stock_new;
    PyType_Modified(type);
  } else if (method == nullptr) {
    reinterpret_cast<PyCFunctionObject*>(it)->vectorcall = !on ? nullptr
        : first != 0                                           ? call_function<true>
                                                               : call_function<false>;
  } else {
    method->first = first != 0;
    reinterpret_cast<PyMethodDescrObject*>(it)->d_method = on ? &method->ours : method->stock;
  }
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"rescue", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&rescue)), kKeywords, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_rescue(PyObject* module) {
  return PyModule_AddFunctions(module, g_functions) == 0;
}

}  // namespace hostdevice
