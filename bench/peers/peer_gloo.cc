// SPDX-License-Identifier: Apache-2.0
// Gloo over its TCP transport, the one it has for hosts: on the loopback interface when it starts its processes itself,
// on any when a launcher did and named a folder for them to meet in.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench/peers/peer.h"
#include "tools/starling/bench_error.h"
#include "tools/starling/launch_identity.h"
#include "tools/starling/launch_local.h"

namespace sl::bench {
namespace {

using tools::Collective;
using tools::Shape;

// Names the folder through which the processes find each other.
constexpr char kStoreVariable[] = "STARLING_TOOL_PEER_STORE";

class Gloo final : public Peer {
 public:
  Gloo(tools::Coordinator& coordinator, const std::string& interface) {
    const char* folder = std::getenv(kStoreVariable);
    if (!folder)
      throw tools::CommandError(tools::kExitUsage, std::string("start it with --ranks N, or set ") + kStoreVariable);
    gloo::transport::tcp::attr attributes;
    attributes.iface = interface;
    device_ = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(folder);
    auto context = std::make_shared<gloo::rendezvous::Context>(coordinator.worker(), coordinator.workers());
    context->setTimeout(std::chrono::seconds(30));
    context->connectFullMesh(store, device_);
    context_ = context;
  }

  bool ReducesInPlace(Collective collective) const override { return collective == Collective::kReduceScatter; }

  std::function<void()> Prepare(Collective collective, const Shape& shape, float* send, float* recv) override {
    switch (collective) {
      case Collective::kAllReduce:
        return AllReduce(shape, send, recv);
      case Collective::kAllGather: {
        auto options = std::make_shared<gloo::AllgatherOptions>(context_);
        options->setInput(send, shape.send_count);
        options->setOutput(recv, shape.recv_count);
        return [options] { gloo::allgather(*options); };
      }
      case Collective::kReduceScatter: {
        std::vector<int> counts(static_cast<size_t>(context_->size), static_cast<int>(shape.param_count));
        auto algorithm = std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
            context_, std::vector<float*>{send}, static_cast<int>(shape.send_count), counts);
        return [algorithm] { algorithm->run(); };
      }
      case Collective::kAlltoAll: {
        auto options = std::make_shared<gloo::AlltoallOptions>(context_);
        options->setInput(send, shape.send_count);
        options->setOutput(recv, shape.recv_count);
        return [options] { gloo::alltoall(*options); };
      }
      default:
        return SendRecv(shape, send, recv);
    }
  }

 private:
  std::function<void()> AllReduce(const Shape& shape, float* send, float* recv) {
    auto options = std::make_shared<gloo::AllreduceOptions>(context_);
    options->setInput(send, shape.send_count);
    options->setOutput(recv, shape.recv_count);
    options->setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    return [options] { gloo::allreduce(*options); };
  }

  std::function<void()> SendRecv(const Shape& shape, float* send, float* recv) {
    const int next = (context_->rank + 1) % context_->size;
    const int previous = (context_->rank + context_->size - 1) % context_->size;
    std::shared_ptr<gloo::transport::UnboundBuffer> out = context_->createUnboundBuffer(send, shape.bytes);
    std::shared_ptr<gloo::transport::UnboundBuffer> in = context_->createUnboundBuffer(recv, shape.bytes);
    const uint64_t slot = context_->nextSlot();
    return [=] {
      in->recv(previous, slot);
      out->send(next, slot);
      out->waitSend(std::chrono::seconds(30));
      in->waitRecv(nullptr, std::chrono::seconds(30));
    };
  }

  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::Context> context_;
};

int Launch(const PeerOptions& options, int argc, char** argv) {
  std::string folder = (std::filesystem::temp_directory_path() / "starling-peer-XXXXXX").string();
  if (!mkdtemp(folder.data())) throw tools::CommandError(tools::kExitFailure, "cannot create " + folder);
  tools::LaunchSpec spec;
  spec.command = {tools::SelfPath()};
  spec.command.insert(spec.command.end(), argv + 1, argv + argc);
  spec.environment = {{kStoreVariable, folder}};
  spec.processes = spec.workers = options.ranks;
  const tools::LaunchResult result = tools::LaunchLocal(spec);
  std::error_code ignored;  // a left-over folder does no harm
  std::filesystem::remove_all(folder, ignored);
  if (result.exit_code && !result.explained) fprintf(stderr, "gloo: %s\n", result.failure.c_str());
  return result.exit_code;
}

}  // namespace
}  // namespace sl::bench

int main(int argc, char** argv) {
  using sl::bench::Peer;
  try {
    const sl::bench::PeerOptions options = sl::bench::ParsePeerOptions(argc, argv);
    if (options.ranks > 0 && !std::getenv(sl::tools::kLaunchVariable)) return sl::bench::Launch(options, argc, argv);
    const auto make = [&](sl::tools::Coordinator& coordinator) -> std::unique_ptr<Peer> {
      return std::make_unique<sl::bench::Gloo>(coordinator, options.interface);
    };
    return sl::bench::RunPeerProcess(options, "gloo", make);
  } catch (const sl::tools::CommandError& error) {
    fprintf(error.exit_code() ? stderr : stdout, "%s\n", error.what());
    return error.exit_code();
  }
}
