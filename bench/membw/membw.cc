// SPDX-License-Identifier: Apache-2.0
// What memory allows: the rate at which all threads together copy, and sum two inputs into one output, over buffers far
// larger than the caches. Large collectives are held against these two numbers. Prints one JSON line.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using Kernel = void (*)(float* out, const float* a, const float* b, size_t count);

void Copy(float* out, const float* a, const float*, size_t count) { std::memcpy(out, a, count * sizeof(float)); }

void Sum(float* __restrict out, const float* __restrict a, const float* __restrict b, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void SumAvx2(float* out, const float* a, const float* b, size_t count) {
  for (size_t i = 0; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
  }
}

// Stores past the caches spare reading what is about to be overwritten.
__attribute__((target("avx2"))) void SumStreamed(float* out, const float* a, const float* b, size_t count) {
  for (size_t i = 0; i + 8 <= count; i += 8) {
    _mm256_stream_ps(out + i, _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
  }
  _mm_sfence();
}
#endif

struct Options {
  int threads = 2;
  size_t bytes = 64u << 20;  // per buffer and thread
  int samples = 7;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Output GB/s of all threads together, the median of samples. Each thread owns its three buffers.
double Measure(const Options& options, Kernel kernel) {
  const size_t count = options.bytes / sizeof(float);
  std::vector<double> rates;
  std::vector<std::thread> threads;
  std::atomic<int> ready{0}, done{0};
  std::atomic<int> round{-1};
  auto body = [&] {
    float* buffers[3];
    for (float*& buffer : buffers) {
      buffer = static_cast<float*>(std::aligned_alloc(2u << 20, options.bytes));
      if (!buffer) std::abort();
      std::fill(buffer, buffer + count, 1.5f);
    }
    for (int sample = -1; sample < options.samples; ++sample) {  // the first is a warm-up
      ready.fetch_add(1);
      while (round.load(std::memory_order_acquire) != sample + 1) std::this_thread::yield();
      kernel(buffers[0], buffers[1], buffers[2], count);
      done.fetch_add(1);
    }
    for (float* buffer : buffers) std::free(buffer);
  };
  threads.reserve(static_cast<size_t>(options.threads));
  for (int i = 0; i < options.threads; ++i) threads.emplace_back(body);
  for (int sample = -1; sample < options.samples; ++sample) {
    while (ready.load() != options.threads * (sample + 2)) std::this_thread::yield();
    const auto start = std::chrono::steady_clock::now();
    round.store(sample + 1, std::memory_order_release);
    while (done.load() != options.threads * (sample + 2)) std::this_thread::yield();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    const double bytes = static_cast<double>(options.bytes) * options.threads;
    if (sample >= 0) rates.push_back(bytes / 1e9 / elapsed.count());
  }
  for (std::thread& thread : threads) thread.join();
  return Median(rates);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const long value = std::strtol(argv[i + 1], nullptr, 10);
    if (name == "--threads" && value > 0 && value <= 1024) {
      options.threads = static_cast<int>(value);
    } else if (name == "--mib" && value > 1 && value <= 65536) {
      options.bytes = static_cast<size_t>(value & ~1L) << 20;
    } else if (name == "--samples" && value > 0 && value <= 1000) {
      options.samples = static_cast<int>(value);
    } else {
      argc = 0;
    }
  }
  if (argc == 0 || argc % 2 == 0) {
    fprintf(stderr, "usage: bench_membw [--threads N] [--mib M] [--samples K]\n");
    return 2;
  }
  const double copy = Measure(options, Copy);
  double sum = Measure(options, Sum);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    sum = std::max({sum, Measure(options, SumAvx2), Measure(options, SumStreamed)});
  }
#endif
  printf("{\"threads\": %d, \"bytes\": %zu, \"memcpy_gb_per_s\": %.3f, \"sum2_gb_per_s\": %.3f}\n", options.threads,
         options.bytes, copy, sum);
  return 0;
}
