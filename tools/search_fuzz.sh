#!/usr/bin/env bash
# Searches with every fuzz target for SECONDS (default 30) each; what is found is printed as Base64 and fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-30}

mapfile -t targets < <(bazel query --noshow_progress 'attr(name, "_search$", //tests/fuzz:all)' \
  2>/dev/null </dev/null)
[[ ${#targets[@]} -gt 0 ]] || { echo "fuzz: there is no target" >&2; exit 1; }
bazel build --config=asan --noshow_progress "${targets[@]}" </dev/null
bin=$(bazel info --config=asan bazel-bin 2>/dev/null </dev/null)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

search() {
  local name=$1
  if ! "$bin/tests/fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 >"$name.log" 2>&1; then
    tail -n 40 "$name.log" >&2
    echo "fuzz: $name found something" >&2
    return 1
  fi
  printf 'fuzz: %-22s %12s executions, nothing found\n' "$name" \
    "$(awk '/stat::number_of_executed_units/ {print $2}' "$name.log")"
}
export -f search
export bin seconds
# One search a core; all of them run, also after one has found something.
printf '%s\n' "${targets[@]##*:}" | xargs -P "$(nproc)" -I{} bash -c 'search {}'
