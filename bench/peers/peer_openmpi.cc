// SPDX-License-Identifier: Apache-2.0
// Open MPI, started by mpirun.
#include <mpi.h>

#include <cstdio>

#include "bench/peers/peer.h"
#include "tools/starling/bench_error.h"

namespace sl::bench {
namespace {

using tools::Collective;
using tools::Shape;

class OpenMpi final : public Peer {
 public:
  OpenMpi() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  ~OpenMpi() override { MPI_Finalize(); }

  // Errors end the job: MPI's default handler aborts with a message.
  std::function<void()> Prepare(Collective collective, const Shape& shape, float* send, float* recv) override {
    const int count = static_cast<int>(shape.param_count);
    switch (collective) {
      case Collective::kAllReduce:
        return [=] { MPI_Allreduce(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
      case Collective::kAllGather:
        return [=] { MPI_Allgather(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, MPI_COMM_WORLD); };
      case Collective::kReduceScatter:
        return [=] { MPI_Reduce_scatter_block(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
      case Collective::kAlltoAll:
        return [=] { MPI_Alltoall(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, MPI_COMM_WORLD); };
      default: {
        const int next = (rank_ + 1) % ranks_, previous = (rank_ + ranks_ - 1) % ranks_;
        return [=] {
          MPI_Sendrecv(send, count, MPI_FLOAT, next, 0, recv, count, MPI_FLOAT, previous, 0, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
        };
      }
    }
  }

 private:
  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace
}  // namespace sl::bench

int main(int argc, char** argv) {
  using sl::bench::Peer;
  try {
    const sl::bench::PeerOptions options = sl::bench::ParsePeerOptions(argc, argv);
    return sl::bench::RunPeerProcess(options, "openmpi", [](sl::tools::Coordinator&) -> std::unique_ptr<Peer> {
      return std::make_unique<sl::bench::OpenMpi>();
    });
  } catch (const sl::tools::CommandError& error) {
    fprintf(error.exit_code() ? stderr : stdout, "%s\n", error.what());
    return error.exit_code();
  }
}
