// Thrust's pointers to a device's memory, and vectors in it. Memory of a device is the host's: what they point to is a
// plain reference.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <new>
#include <vector>

#include "host_cuda/thrust/policies.h"

namespace thrust {

template <class T>
class device_ptr {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = std::remove_cv_t<T>;
  using difference_type = std::ptrdiff_t;
  using pointer = device_ptr;
  using reference = std::add_lvalue_reference_t<T>;
  using raw_pointer = T*;

  device_ptr() = default;
  device_ptr(std::nullptr_t) {}
  explicit device_ptr(T* p) : p_(p) {}
  template <class U, std::enable_if_t<std::is_convertible_v<U*, T*>, int> = 0>
  device_ptr(const device_ptr<U>& other) : p_(other.get()) {}

  T* get() const {
    return p_;
  }
  template <class U = T>
  std::add_lvalue_reference_t<U> operator*() const {
    return *p_;
  }
  template <class U = T>
  std::add_lvalue_reference_t<U> operator[](difference_type i) const {
    return p_[i];
  }
  T* operator->() const {
    return p_;
  }
  device_ptr& operator+=(difference_type n) {
    p_ += n;
    return *this;
  }
  device_ptr& operator-=(difference_type n) {
    p_ -= n;
    return *this;
  }
  device_ptr& operator++() {
    return *this += 1;
  }
  device_ptr& operator--() {
    return *this -= 1;
  }
  device_ptr operator++(int) {
    const device_ptr old = *this;
    ++p_;
    return old;
  }
  device_ptr operator--(int) {
    const device_ptr old = *this;
    --p_;
    return old;
  }
  device_ptr operator+(difference_type n) const {
    return device_ptr(p_ + n);
  }
  device_ptr operator-(difference_type n) const {
    return device_ptr(p_ - n);
  }
  friend device_ptr operator+(difference_type n, device_ptr p) {
    return p + n;
  }
  template <class U>
  difference_type operator-(const device_ptr<U>& other) const {
    return p_ - other.get();
  }
  explicit operator bool() const {
    return p_ != nullptr;
  }

 private:
  T* p_ = nullptr;
};
// Memory of any type.
template <>
class device_ptr<void> {
 public:
  device_ptr() = default;
  explicit device_ptr(void* p) : p_(p) {}
  template <class T>
  device_ptr(const device_ptr<T>& other) : p_(other.get()) {}
  void* get() const {
    return p_;
  }
  explicit operator bool() const {
    return p_ != nullptr;
  }

 private:
  void* p_ = nullptr;
};
#define HOST_CUDA_COMPARED(op)                                       \
  template <class T, class U>                                        \
  bool operator op(const device_ptr<T>& a, const device_ptr<U>& b) { \
    return a.get() op b.get();                                       \
  }
HOST_CUDA_COMPARED(==)
HOST_CUDA_COMPARED(!=)
HOST_CUDA_COMPARED(<)
HOST_CUDA_COMPARED(>)
HOST_CUDA_COMPARED(<=)
HOST_CUDA_COMPARED(>=)
#undef HOST_CUDA_COMPARED

template <class T>
device_ptr<T> device_pointer_cast(T* p) {
  return device_ptr<T>(p);
}
template <class T>
device_ptr<T> device_pointer_cast(const device_ptr<T>& p) {
  return p;
}
template <class T>
T* raw_pointer_cast(T* p) {
  return p;
}
template <class T>
T* raw_pointer_cast(const device_ptr<T>& p) {
  return p.get();
}

template <class T>
struct device_allocator {
  using value_type = T;
  device_allocator() = default;
  template <class U>
  device_allocator(const device_allocator<U>&) {}
  T* allocate(size_t n) {
    T* p = nullptr;
    if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) throw std::bad_alloc();
    return p;
  }
  void deallocate(T* p, size_t) {
    cudaFree(p);
  }
  template <class U>
  bool operator==(const device_allocator<U>&) const {
    return true;
  }
  template <class U>
  bool operator!=(const device_allocator<U>&) const {
    return false;
  }
};
template <class T>
device_ptr<T> device_malloc(size_t n) {
  return device_ptr<T>(device_allocator<T>().allocate(n));
}
inline device_ptr<void> device_malloc(size_t bytes) {
  return device_ptr<void>(device_allocator<char>().allocate(bytes));
}
template <class T>
void device_free(device_ptr<T> p) {
  cudaFree(const_cast<std::remove_cv_t<T>*>(p.get()));
}

template <class T, class A = std::allocator<T>>
class host_vector : public std::vector<T, A> {
 public:
  using std::vector<T, A>::vector;
  host_vector() = default;
  template <class Other, class = typename Other::iterator>
  host_vector(const Other& other) : std::vector<T, A>(other.begin(), other.end()) {}
  template <class Other, class = typename Other::iterator>
  host_vector& operator=(const Other& other) {
    this->assign(other.begin(), other.end());
    return *this;
  }
};

template <class T, class A = device_allocator<T>>
class device_vector {
 public:
  using value_type = T;
  using size_type = size_t;
  using difference_type = std::ptrdiff_t;
  using pointer = device_ptr<T>;
  using const_pointer = device_ptr<const T>;
  using reference = T&;
  using const_reference = const T&;
  using iterator = device_ptr<T>;
  using const_iterator = device_ptr<const T>;

  device_vector() = default;
  explicit device_vector(size_t n) : all_(n) {}
  device_vector(size_t n, const T& value) : all_(n, value) {}
  device_vector(std::initializer_list<T> values) : all_(values) {}
  template <class In, class = typename std::iterator_traits<In>::iterator_category>
  device_vector(In first, In last) : all_(first, last) {}
  template <class Other, class = typename Other::iterator>
  device_vector(const Other& other) : all_(other.begin(), other.end()) {}
  template <class Other, class = typename Other::iterator>
  device_vector& operator=(const Other& other) {
    all_.assign(other.begin(), other.end());
    return *this;
  }
  template <class In, class = typename std::iterator_traits<In>::iterator_category>
  void assign(In first, In last) {
    all_.assign(first, last);
  }
  void assign(size_t n, const T& value) {
    all_.assign(n, value);
  }

  iterator begin() {
    return data();
  }
  iterator end() {
    return data() + static_cast<difference_type>(size());
  }
  const_iterator begin() const {
    return data();
  }
  const_iterator end() const {
    return data() + static_cast<difference_type>(size());
  }
  const_iterator cbegin() const {
    return begin();
  }
  const_iterator cend() const {
    return end();
  }
  pointer data() {
    return pointer(all_.data());
  }
  const_pointer data() const {
    return const_pointer(all_.data());
  }
  T& operator[](size_t i) {
    return all_[i];
  }
  const T& operator[](size_t i) const {
    return all_[i];
  }
  T& front() {
    return all_.front();
  }
  T& back() {
    return all_.back();
  }
  const T& front() const {
    return all_.front();
  }
  const T& back() const {
    return all_.back();
  }
  size_t size() const {
    return all_.size();
  }
  size_t capacity() const {
    return all_.capacity();
  }
  bool empty() const {
    return all_.empty();
  }
  void resize(size_t n) {
    all_.resize(n);
  }
  void resize(size_t n, const T& value) {
    all_.resize(n, value);
  }
  void reserve(size_t n) {
    all_.reserve(n);
  }
  void push_back(const T& value) {
    all_.push_back(value);
  }
  void pop_back() {
    all_.pop_back();
  }
  void clear() {
    all_.clear();
  }
  void shrink_to_fit() {
    all_.shrink_to_fit();
  }
  void swap(device_vector& other) {
    all_.swap(other.all_);
  }
  iterator erase(iterator at) {
    return erase(at, at + 1);
  }
  iterator erase(iterator first, iterator last) {
    const auto from = all_.begin() + (first - begin());
    all_.erase(from, from + (last - first));
    return first;
  }

 private:
  std::vector<T, A> all_;
};
template <class T>
bool operator==(const device_vector<T>& a, const device_vector<T>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

}  // namespace thrust
