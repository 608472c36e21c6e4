// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/survey_crew.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "kernel/events/printable.h"

namespace sl::verify {
namespace {

class Crew {
 public:
  explicit Crew(const SurveyPlan& plan) : plan_(plan), rows_(plan.tasks.size()) {}

  std::vector<SurveyRow> Run(const std::function<void(const SurveyRow&)>& report) {
    std::vector<std::jthread> threads;
    const size_t wanted = std::min<size_t>(std::max(1u, plan_.threads), plan_.tasks.size());
    for (size_t i = 0; i < wanted; ++i) threads.emplace_back([this] { Work(); });
    Report(report);
    threads.clear();  // joins
    if (error_) std::rethrow_exception(error_);
    std::vector<SurveyRow> rows;
    for (std::optional<SurveyRow>& row : rows_) rows.push_back(std::move(*row));
    return rows;
  }

 private:
  // The survey of one algorithm and number of ranks; the last one is kept, as tasks in a row often share it.
  struct Opened {
    const SurveyTask* task = nullptr;
    std::unique_ptr<Survey> survey;
    Status status;
  };

  void Report(const std::function<void(const SurveyRow&)>& report) {
    for (const std::optional<SurveyRow>& row : rows_) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return row.has_value() || error_; });
      if (error_) return;
      lock.unlock();
      report(*row);
    }
  }

  void Work() {
    Opened opened;
    try {
      while (const std::optional<size_t> task = Take()) {
        SurveyRow row = MakeRow(plan_.tasks[*task], &opened);
        const std::lock_guard lock(mutex_);
        rows_[*task] = std::move(row);
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  std::optional<size_t> Take() {
    const std::lock_guard lock(mutex_);
    if (error_ || taken_ == plan_.tasks.size()) return std::nullopt;
    return taken_++;
  }

  void Open(const SurveyTask& task, Opened* opened) {
    const bool same = opened->task != nullptr && opened->task->algorithm == task.algorithm &&
                      opened->task->shape.ranks == task.shape.ranks &&
                      opened->task->shape.host_of == task.shape.host_of;
    if (same) return;
    opened->task = &task;
    opened->survey.reset();
    // Modules make objects one at a time.
    const std::lock_guard lock(opening_);
    auto survey = Survey::Open(*task.algorithm, task.shape, plan_.counts, plan_.effort);
    opened->status = survey.status();
    if (survey.ok()) opened->survey = survey.Take();
  }

  SurveyRow MakeRow(const SurveyTask& task, Opened* opened) {
    Open(task, opened);
    if (opened->survey != nullptr) return opened->survey->Run(task.kind);
    SurveyRow row;
    row.algorithm = task.algorithm->name;
    row.kind = task.kind;
    row.ranks = task.shape.ranks;
    row.refused = 1;
    row.reason = kernel::Printable(opened->status.message());
    if (opened->status.code() != SL_ERR_UNSUPPORTED) {
      row.failure = Failure{row.algorithm, "cannot be created: " + row.reason + "\n", std::nullopt};
    }
    return row;
  }

  const SurveyPlan& plan_;
  std::mutex opening_;
  std::mutex mutex_;  // everything below
  std::condition_variable changed_;
  size_t taken_ = 0;
  std::vector<std::optional<SurveyRow>> rows_;
  std::exception_ptr error_;
};

}  // namespace

std::vector<SurveyRow> RunSurveys(const SurveyPlan& plan, const std::function<void(const SurveyRow&)>& report) {
  return Crew(plan).Run(report);
}

}  // namespace sl::verify
