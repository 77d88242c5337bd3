// The names of MSL 2.3 for clang's C++ for OpenCL, a language with the same rules on address spaces,
// kernels and functions: nothing is generated, the text is judged.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define device __global
#define threadgroup __local
#define constant __constant
#define thread __private

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
#define VECTOR(T) \
  typedef T T##2 __attribute__((ext_vector_type(2))); \
  typedef T T##4 __attribute__((ext_vector_type(4)));
VECTOR(float) VECTOR(half) VECTOR(int) VECTOR(uint) VECTOR(ushort) VECTOR(ulong)
VECTOR(long)
// Vectors are made of as many numbers as they have, as a call; upstream clang has a cast for it.
float4 make_float4(float a, float b, float c, float d);
half4 make_half4(half a, half b, half c, half d);
int4 make_int4(int a, int b, int c, int d);
ulong2 make_ulong2(ulong a, ulong b);
int2 make_int2(int a, int b);
long2 make_long2(long a, long b);
#define int2(...) make_int2(__VA_ARGS__)
#define long2(...) make_long2(__VA_ARGS__)
#define float4(...) make_float4(__VA_ARGS__)
#define half4(...) make_half4(__VA_ARGS__)
#define ulong2(...) make_ulong2(__VA_ARGS__)
#define int4(...) make_int4(__VA_ARGS__)

namespace metal {
template <class To, class From> To as_type(From x) {
  static_assert(sizeof(To) == sizeof(From), "as_type: sizes differ");
  return To();
}
float floor(float);
half floor(half);
float rint(float);
half rint(half);
float fabs(float);
half fabs(half);
float fma(float, float, float);
half fma(half, half, half);
int max(int, int);
uint max(uint, uint);
long max(long, long);
float max(float, float);
half max(half, half);
int min(int, int);
uint min(uint, uint);
long min(long, long);
float min(float, float);
half min(half, half);
namespace precise {
float exp2(float);
float log2(float);
float exp(float);
float log(float);
float sin(float);
float cos(float);
float sqrt(float);
float tanh(float);
float fmod(float, float);
}
enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);
#define SHUFFLES(T) \
  T simd_shuffle_xor(T, ushort); \
  T simd_shuffle(T, ushort);
template <class T, int R, int C> struct simdgroup_matrix {
  static_assert(R == 8 && C == 8, "matrices are 8 x 8");
  T elements[2];
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
template <class T, int R, int C> simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T x) {
  return {{x, x}};
}
#define MOVES(SPACE) \
  template <class T> void simdgroup_load(__private simdgroup_matrix<T, 8, 8> &m, const SPACE T *p, \
                                         ulong width, ulong2 from, bool transpose) {} \
  template <class T> void simdgroup_store(__private const simdgroup_matrix<T, 8, 8> &m, SPACE T *p, ulong width, \
                                          ulong2 from, bool transpose) {}
MOVES(device)
MOVES(threadgroup)
template <class T, class A, class B> struct simt_multiplied {
  enum { yes = __is_same(T, A) && __is_same(A, B) };
};
#if __METAL_VERSION__ >= 310
template <> struct simt_multiplied<float, half, half> { enum { yes = 1 }; };
#endif
template <class T, class A, class B> void simdgroup_multiply_accumulate(
    __private simdgroup_matrix<T, 8, 8> &d, __private const simdgroup_matrix<A, 8, 8> &a,
    __private const simdgroup_matrix<B, 8, 8> &b, __private const simdgroup_matrix<T, 8, 8> &c) {
  static_assert(simt_multiplied<T, A, B>::yes, "matrices of these types are not multiplied here");
}
SHUFFLES(float) SHUFFLES(half) SHUFFLES(int) SHUFFLES(uint) SHUFFLES(ushort) SHUFFLES(uint2)
}
