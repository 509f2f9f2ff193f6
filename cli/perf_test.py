"""`gradwire perf` with ranks as threads and as processes, and its records against `schedule`."""

import collections
import csv
import io
import json
import os
import re
import resource
import signal
import socket
import subprocess
import tempfile
import unittest

from tests.lib import free_port, networks
from tools import unittest_main

_GRADWIRE = os.path.join(os.environ["TEST_SRCDIR"], "gradwire", "cli", "gradwire")
_LIMIT_S = 100
_COLLECTIVES = (
    "all-reduce reduce broadcast all-gather reduce-scatter all-to-all barrier".split()
)
_FEW = ["-n", "2", "-w", "1"]


def _gradwire(*args, **variables):
    return subprocess.run([_GRADWIRE, *args], capture_output=True, text=True, timeout=_LIMIT_S,
                          check=False, env={**os.environ, **variables})


def _processes(ranks, *program):
    """Arguments that run `perf` on ranks which are processes."""
    return ["run", "-n", str(ranks), "--timeout", "60", "--", *program, "perf"]


def _json(*args):
    done = _gradwire(*args, "--json")
    if done.returncode not in (0, 1) or not done.stdout:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class PerfTest(unittest.TestCase):
    def test_every_collective_is_right_for_all_types_and_operations(self):
        for collective in _COLLECTIVES:
            for ranks in ("1", "3"):
                done = _gradwire("perf", "--ranks", ranks, "--collective", collective, "-d",
                                 "all", "-o", "all", "-b", "12", "-e", "40K", "-f", "60", "-r", "0", *_FEW)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("# Out of bounds values : 0 OK", done.stdout, collective)

    def test_codecs_stay_within_their_bounds(self):
        specs = ["none", "bf16", "fp16", "qsgd(bits=4)", "qsgd(bits=8,block=512)", "efsign"]
        options = [option for spec in specs for option in ("-x", spec)]
        for dtype in ("float", "half", "bfloat16"):
            result = _json("perf", "--ranks", "3", "-b", "1004", "-e", "1M", "-f", "31", "-d",
                           dtype, *options, *_FEW)
            self.assertEqual(result["out_of_bounds"], 0, dtype)
            self.assertEqual(len({row["spec"] for row in result["results"]}), len(specs))

    def test_a_row_tells_what_crossed_the_wire(self):
        result = _json("perf", "--ranks", "2", "-b", "4M", "-x", "none", "-x", "qsgd(bits=4)",
                       *_FEW)
        plain, coded = result["results"]
        self.assertAlmostEqual(plain["ratio"], 1, delta=0.01)
        self.assertAlmostEqual(coded["ratio"], 32 / (4 + 32 / 256), delta=0.1)
        self.assertEqual((plain["relerr"], plain["enc_us"]), (0, 0))
        self.assertGreater(coded["enc_us"], 0)
        self.assertLess(coded["out_of_place"]["busbw"], coded["out_of_place"]["eff_busbw"])

    def test_operations_issued_together_are_measured_as_one_by_one(self):
        """Time, bytes and encoding are those of one operation."""
        for collective in _COLLECTIVES:
            done = _gradwire("perf", "--ranks", "2", "--collective", collective, "-m", "3", "-b",
                             "40K", *_FEW)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        options = ("--ranks", "2", "-b", "400K", "-x", "none", "-x", "qsgd(bits=4)", *_FEW)
        alone, together = (_json("perf", "-m", times, *options) for times in ("1", "4"))
        self.assertEqual(together["out_of_bounds"], 0)
        self.assertEqual(together["operations"], 4)
        for one, four in zip(alone["results"], together["results"]):
            self.assertAlmostEqual(four["wire_bytes"] / one["wire_bytes"], 1, delta=0.02)

    def test_each_rank_may_be_the_root_in_turn(self):
        for collective, roots in (("broadcast", [0, 1, 2]), ("all-reduce", [-1])):
            result = _json("perf", "--ranks", "3", "-b", "40K", "--collective", collective, "-r",
                           "-1", *_FEW)
            self.assertEqual([row["root"] for row in result["results"]], roots)

    def test_processor_time_leaves_waiting_out(self):
        """Where each of eight ranks on one core waits for most of the time."""
        cores = os.sched_getaffinity(0)
        options = ("--ranks", "8", "-b", "1M", "-n", "20", "-w", "2", "-c", "0")
        try:
            os.sched_setaffinity(0, {min(cores)})
            passed, used = (_json("perf", "-C", which, *options)["results"][0]["out_of_place"]
                            for which in ("0", "1"))
        finally:
            os.sched_setaffinity(0, cores)
        self.assertLess(used["time_us"], 0.8 * passed["time_us"])

    def test_a_contribution_is_encoded_as_often_at_any_number_of_ranks(self):
        wanted = {"none": [0, 0], "bf16": [0, 2], "qsgd": [0, 2], "efsign": [0, 2],
                  "terngrad": [0, 1]}
        options = [option for spec in wanted for option in ("-x", spec)]
        for ranks in (1, 2, 3, 5):
            result = _json("perf", "--ranks", str(ranks), "-b", "40K", *options, *_FEW)
            found = {row["spec"].split("(")[0]: row["encodes_per_elem"]
                     for row in result["results"]}
            self.assertEqual(found, {spec: of[ranks > 1] for spec, of in wanted.items()}, ranks)
        result = _json("perf", "--ranks", "3", "-b", "40K", "--collective", "reduce", "-r", "1", *_FEW)
        self.assertEqual([row["encodes_per_elem"] for row in result["results"]], [0])

    def test_threads_that_cannot_be_made_are_told_of(self):
        """Stacks as large as the address space; no rank waits for those that are not there."""
        soft, hard = 1 << 47, resource.getrlimit(resource.RLIMIT_STACK)[1]
        if hard not in (resource.RLIM_INFINITY, soft):
            self.skipTest("the stack is limited")
        done = subprocess.run(
            [_GRADWIRE, "perf", "--ranks", "3", "-b", "1K", *_FEW], capture_output=True, text=True,
            timeout=_LIMIT_S, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (soft, hard)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cannot make the thread of rank 0: ", done.stderr)

    def test_a_full_disk_is_told_of_once(self):
        run = ["--ranks", "1", "-b", "1K", "-e", "1M", *_FEW]
        for options in ([*run, "--json", "-"], run, ["--help"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([_GRADWIRE, "perf", *options], stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=_LIMIT_S,
                                      check=False)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.count("cannot write standard output"), 1, done.stderr)

    def test_csv_has_one_line_for_each_way(self):
        done = _gradwire("perf", "--ranks", "2", "-b", "1K", "-e", "2K", "--csv", "-", *_FEW)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([(row["size"], row["in_place"]) for row in rows],
                         [("1024", "0"), ("1024", "1"), ("2048", "0"), ("2048", "1")])
        times = "time_us algbw busbw wrong eff_busbw".split()
        costs = "wire_bytes ratio encodes_per_elem enc_us net_us dec_us relerr".split()
        for row in rows:
            self.assertTrue(all(float(row[name]) >= 0 for name in times), row)
            # They are measured out of place.
            if row["in_place"] == "1":
                self.assertEqual({row[name] for name in costs}, {""})
            else:
                self.assertTrue(all(float(row[name]) >= 0 for name in costs), row)
            self.assertEqual((row["type"], row["redop"], row["wrong"]), ("float", "sum", "0"))

    def test_under_a_launcher_each_process_is_a_rank_and_rank_0_prints(self):
        done = _gradwire("run", "-n", "3", "--timeout", "60", "--", "gradwire", "perf", "-b",
                         "64K", "-x", "none", "-x", "bf16", *_FEW)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r", 3 ranks, rank 0 on \d+ of \d+ processors\n")
        # Figures of memory that ranks share compare within one state of the machine only.
        for when in ("before", "after "):
            self.assertRegex(done.stdout,
                             rf"# machine state {when} : (\d+\.\d+ us \((fast|slow)\)|not measured)")
        self.assertNotIn("[1]", done.stdout)
        self.assertEqual(done.stdout.count("\n       65536 "), 2, done.stdout)

    def test_wrong_results_are_counted_and_fail(self):
        """One number of what ranks send is damaged where no checksum tells, each time another."""
        failures = 0
        for damaged in range(12):
            done = _gradwire("perf", "--ranks", "2", "-b", "64K", "-n", "1", "-w", "0",
                             "--transport", f"faulty(loopback,corrupt_sealed_at={damaged})")
            wrong = re.search(r"# Out of bounds values : (\d+) (\w+)", done.stdout)
            if wrong is None:  # the command's own sums were hit
                self.assertNotEqual(done.returncode, 0, done.stdout)
                continue
            is_wrong = int(wrong.group(1)) > 0
            self.assertEqual(done.returncode, 1 if is_wrong else 0, done.stdout)
            self.assertEqual(wrong.group(2), "FAILED" if is_wrong else "OK")
            failures += is_wrong
        self.assertGreater(failures, 0)

    def test_rows_are_there_before_the_end(self):
        # The second size takes longer than anybody waits: the first row must not wait for it.
        command = [_GRADWIRE, "perf", "--ranks", "2", "-b", "64", "-e", "64M", "-f", "1048576",
                   "-n", "100000", "-w", "0", "-c", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
            lines = iter(job.stdout.readline, "")
            row = next((line for line in lines if line.startswith("          64 ")), "")
            running = job.poll() is None
            job.kill()
        self.assertIn("float", row)
        self.assertTrue(running)

    @unittest.skipUnless(networks.can_make(), "this process may not make network namespaces")
    def test_results_are_right_across_namespaces(self):
        for spec in ("none", "qsgd(bits=4)"):
            done = _gradwire("run", "-n", "3", "--netlab", "1gbit", "--timeout", "90", "--",
                             "gradwire", "perf", "-b", "64K", "-e", "64K", "-x", spec,
                             "--transport", "ucx", *_FEW)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("3 ranks, test network at 1gbit", done.stdout)
            self.assertIn("over ucx", done.stdout)
            (row,) = [line for line in done.stdout.splitlines() if line.startswith("       65536 ")]
            self.assertEqual((row.split()[8], row.split()[12]), ("0", "0"), done.stdout)

    def test_says_what_is_wrong(self):
        for args, words in (
            (["--collective", "broadcast", "-r", "9"], "no root 9"),
            (["--set", "foo=1"], "unknown setting 'foo'"),
            (["-x", "qsdg"], "'qsgd'"),
            (["-x", "topk(1e-6,min_numel=0)"], "Accepted for this tensor: 0.001953125 to 1"),
            (["-x", "topk(0.9,agreement=gather,min_numel=0)", "--ranks", "4"],
             "Accepted with agreement=gather: up to "),
            (["--algorithm", "rnig"], "ring"),
            (["-d", "flaot"], "'float'"),
            (["-o", "som"], "'sum'"),
            (["-G", "2"], "--cudagraph is for arrays in GPU memory"),
        ):
            done = _gradwire("perf", "-b", "1K", *_FEW, *args)
            self.assertNotEqual(done.returncode, 0, args)
            self.assertIn(words, done.stderr)

    def test_what_all_ranks_refuse_is_refused_before_anything_is_measured(self):
        done = _gradwire("run", "-n", "3", "--", "gradwire", "perf", "-b", "1K", *_FEW,
                         "-x", "none", "-x", "topk(1e-6,min_numel=0)")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertIn("Accepted for this tensor", done.stderr)
        self.assertNotIn("as the log tells", done.stderr)

    def test_why_the_communicator_has_ended_each_rank_tells_once(self):
        script = 'test $GRADWIRE_RANK = 2 && export GRADWIRE_FAILPOINT=slice:9; exec gradwire "$@"'
        command = ["run", "-n", "3", "--", "sh", "-c", script, "sh", "perf", "-b", "1K", "-n", "99"]
        done = _gradwire(*command)
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)
        self.assertEqual(done.stderr.count("rank 2 is lost"), 2, done.stderr)
        self.assertEqual(done.stderr.count("has ended, as the log tells"), 2, done.stderr)
        done = _gradwire(*command, GRADWIRE_DEBUG="error")
        self.assertEqual(done.stderr.count("gradwire perf: peer lost: rank 2 is lost"), 2,
                         done.stderr)

    def test_threads_take_the_transport_of_the_environment(self):
        for variables, transport in (({}, "loopback"), ({"GRADWIRE_TRANSPORT": "tcp"}, "tcp")):
            done = _gradwire("perf", "-b", "1K", *_FEW, **variables)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f" over {transport},", done.stdout)

    def test_results_have_the_processors(self):
        processors = _json("perf", "-b", "1K", *_FEW)["processors"]
        self.assertEqual(processors["rank_0"], len(os.sched_getaffinity(0)))
        self.assertGreaterEqual(processors["host"], processors["rank_0"])

    def test_results_keep_no_secret(self):
        result = _json("perf", "-b", "1K", *_FEW, "--set", "window=2; secret = hunter2", "--set",
                       "insecure=on")
        self.assertEqual(result["args"], f"gradwire perf -b 1K {' '.join(_FEW)} --set window=2; "
                                         "secret=(set) --set insecure=on --json")


class ScheduleTest(unittest.TestCase):
    def test_lists_nobody_could_read_are_refused(self):
        for args in (["-n", "2", "--elems", "900T"], ["-n", "4096"]):
            done = _gradwire("schedule", "ring", *args)
            self.assertEqual(done.returncode, 2, args)
            self.assertIn("4.2e+06 are shown at most", done.stderr)
        done = _gradwire("schedule", "ring", "-n", "4096", "--rank", "4095")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("# rank 4095\n", done.stdout)


    def test_sizes_are_as_those_of_perf(self):
        args = ("schedule", "ring", "-n", "2")
        self.assertEqual(_json(*args, "--elems", "64K", "--slice", "1K"),
                         _json(*args, "--elems", "65536", "--slice", "1024"))

    def test_auto_tells_where_it_does_not_know_the_size(self):
        note = "# chosen as for few elements: --elems N has it chosen for N\n"
        for args, told in ((["auto"], True), (["auto", "--elems", "8"], False), (["ring"], False)):
            done = _gradwire("schedule", *args, "-n", "2")
            self.assertEqual(note in done.stdout, told, args)


# What tells the messages of an operation apart.
_KEY = ("src", "dst", "slice", "run", "message")


class RecordTest(unittest.TestCase):
    def test_a_record_that_cannot_be_written_is_told(self):
        for how in (["--record", "/no/such/record"], ["--set", "record_messages=/no/such/record"]):
            done = _gradwire("perf", "--ranks", "2", "-b", "1K", *how, *_FEW)
            if how[0] == "--record":  # before anything is measured
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn("cannot write '/no/such/record.0'", done.stderr)
                continue
            for rank in (0, 1):
                self.assertIn(f"cannot write the record of messages '/no/such/record.{rank}'",
                              done.stderr)

    def test_both_communicators_meet_at_a_port_that_is_set(self):
        with tempfile.TemporaryDirectory() as folder:
            done = _gradwire("perf", "--ranks", "2", "-b", "1K", "--record",
                             os.path.join(folder, "record"), *_FEW,
                             GRADWIRE_PORT=str(free_port.find()))
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_start_that_fails_keeps_no_rank_waiting(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            done = _gradwire("perf", "--ranks", "3", "-b", "1K", *_FEW, GRADWIRE_INTERFACE="lo",
                             GRADWIRE_PORT=str(taken.getsockname()[1]))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("is taken by another process", done.stderr)

    def _recorded(self, ranks, *options, job=None):
        """Per operation: {(src, dst, slice, run, message): bytes} of all ranks, which are threads,
        or started by `job`."""
        job = job or ["perf", "--ranks", str(ranks)]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "record")
            done = _gradwire(*job, "-n", "1", "-w", "0", "-c", "0", "--record", path, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            operations = collections.defaultdict(dict)
            for rank in range(ranks):
                with open(f"{path}.{rank}", encoding="utf-8") as file:
                    for message in map(json.loads, file):
                        key = tuple(message[k] for k in _KEY)
                        operations[message["op_seq"]][key] = message["bytes"]
        return list(operations.values())

    def _scheduled(self, algorithm, ranks, elems, *options):
        """The same, of one operation, as `gradwire schedule` lists it."""
        scheduled = _json("schedule", algorithm, "--ranks", str(ranks), "--elems", str(elems),
                          *options)
        messages = {tuple(m[k] for k in _KEY): m["bytes"] for m in scheduled["messages"]}
        self.assertEqual(len(messages), len(scheduled["messages"]), "a message listed twice")
        return messages

    def _expect_scheduled(self, algorithm, ranks, elems, *codec, transport=None):
        """What was sent is what is scheduled, once out of place and once in place, and no more.

        Ranks are threads, or processes over `transport`."""
        slices = ("--slice", "8192")
        wanted = self._scheduled(algorithm, ranks, elems, *slices, *codec)
        chosen = () if codec else ("--algorithm", algorithm)
        over = ("--transport", transport) if transport else ()
        operations = self._recorded(ranks, "-b", str(4 * elems), *slices, *chosen, *codec, *over,
                                    job=_processes(ranks, "gradwire") if transport else None)
        self.assertEqual(operations, [wanted] * 2, (algorithm, ranks, elems, codec, over))

    def test_slices_that_nobody_chose_are_those_of_the_schedule(self):
        elems = 600_001
        apart = 'GRADWIRE_HOST_ID=$RANK exec gradwire "$@"'
        for algorithm, codec in (("ring", ()), ("two_shot", ("-x", "bf16"))):
            options = ("-b", str(4 * elems), *(codec or ("--algorithm", algorithm)))
            within = self._scheduled(algorithm, 3, elems, *codec)
            between = self._scheduled(algorithm, 3, elems, "--several-hosts", *codec)
            self.assertGreater(len(between), len(within))
            self.assertEqual(self._recorded(3, *options), [within] * 2, algorithm)
            hosts = _processes(3, "/bin/bash", "-c", apart, "gradwire")
            self.assertEqual(self._recorded(3, *options, job=hosts), [between] * 2, algorithm)

    def test_slices_that_nobody_chose_are_as_long_on_the_wire_for_all_types(self):
        for dtype, elems in (("float", 1 << 16), ("half", 1 << 17), ("bfloat16", 1 << 17),
                             ("double", 1 << 15)):
            scheduled = _json("schedule", "ring", "-n", "3", "--elems", "1M", "--several-hosts",
                              "-d", dtype)
            self.assertEqual(scheduled["slice_elems"], elems, dtype)

    def test_exact_algorithms_send_their_schedules(self):
        for algorithm in ("direct", "ring", "tree", "recursive_doubling", "halving_doubling",
                          "knomial"):
            for ranks in (2, 3, 4):
                self._expect_scheduled(algorithm, ranks, 25_001)

    def test_the_other_collectives_send_their_schedules(self):
        """-b is nccl-tests' size: of all ranks' parts, where --elems is of one."""
        elems, ranks = 1024, 3
        for collective, parts, root in (("broadcast", 1, 0), ("broadcast", 1, 2), ("reduce", 1, 1),
                                        ("all-gather", ranks, 0), ("reduce-scatter", ranks, 0)):
            options = ("--collective", collective, "--root", str(root))
            wanted = self._scheduled("auto", ranks, elems, *options)
            found = self._recorded(ranks, "-b", str(4 * parts * elems), *options)
            self.assertEqual(found, [wanted] * 2, (collective, root))

    def test_what_is_chosen_depends_on_the_hosts(self):
        """As by communicators."""
        command = ("schedule", "auto", "-n", "4", "--elems", "300000")
        within, between = _json(*command), _json(*command, "--several-hosts")
        self.assertEqual(between["algorithm"], "direct")
        self.assertEqual(within["algorithm"], "halving_doubling")

    def test_encoded_algorithms_send_their_schedules(self):
        for ranks in (2, 3, 4):
            self._expect_scheduled("two_shot", ranks, 25_001, "-x", "qsgd(bits=4)")

    def test_codecs_that_travel_as_arrays_send_their_schedules(self):
        """Whatever the algorithm: each of their rounds is a run of its own."""
        specs = ("qsgd(bits=4,sum=carrier)", "qsgd(bits=8,sum=carrier,feedback=on)", "terngrad",
                 "signsgd", "signsgd(momentum=0.9)", "randk(0.01)", "powersgd(rank=2)",
                 "powersgd(rank=4,start_step=1000)")
        for spec in specs:
            for algorithm, ranks in (("ring", 3), ("direct", 4), ("halving_doubling", 3)):
                options = ("--slice", "8192", "-x", spec)
                wanted = self._scheduled(algorithm, ranks, 200_000, *options)
                found = self._recorded(ranks, "-b", "800000", "--algorithm", algorithm, *options)
                self.assertEqual(found, [wanted] * 2, (spec, algorithm))

    def test_a_step_before_the_start_of_a_method_goes_as_the_array_that_it_sends(self):
        # Its factors have 4 KiB, which go by another algorithm.
        command = ("-n", "4", "--elems", "1M", "-x")
        algorithms = [_json("schedule", "auto", *command, spec)["algorithm"]
                      for spec in ("powersgd(rank=1)", "powersgd(rank=1,start_step=1000)", "none")]
        self.assertEqual(algorithms, ["recursive_doubling", "halving_doubling", "halving_doubling"])
        wanted = self._scheduled("auto", 4, 1 << 20, "-x", "powersgd(rank=1,start_step=1000)")
        found = self._recorded(4, "-b", "4M", "-x", "powersgd(rank=1,start_step=1000)")
        self.assertEqual(found, [wanted] * 2)

    def test_rounds_that_depend_on_the_state_are_those_of_the_first_operation(self):
        for spec in ("acp(rank=4)", "intsgd", "intsgd(bits=8)", "topk(0.01,agreement=gather)"):
            # What is gathered goes by the algorithm that is chosen for it.
            algorithm = "auto" if "gather" in spec else "ring"
            wanted = self._scheduled(algorithm, 3, 200_000, "-x", spec)
            chosen = () if algorithm == "auto" else ("--algorithm", algorithm)
            found = self._recorded(3, "-b", "800000", "-x", spec, *chosen)
            self.assertEqual(found[0], wanted, spec)
            self.assertEqual(len(found), 2)

    def test_a_round_longer_than_a_run_takes_several(self):
        options = ("--slice", "256", "-x", "powersgd(rank=32)")
        wanted = self._scheduled("ring", 2, 1 << 20, *options)
        self.assertEqual({run for _, _, _, run, _ in wanted}, set(range(8)))
        found = self._recorded(2, "-b", "4M", "--algorithm", "ring", *options)
        self.assertEqual(found, [wanted] * 2)

    def test_what_nobody_knows_without_data_is_refused(self):
        for spec, elems, why in (("topk(0.01)", "1M", "depends on the data"),
                                 ("randk(0.01)", "900", "900 elements < min_numel 1024"),
                                 ("powersgd", "1031", "its factors have"),
                                 ("auto", "1M", "one that it chooses from")):
            done = _gradwire("schedule", "ring", "-n", "3", "--elems", elems, "-x", spec)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(why, done.stderr)
        # Its steps are those of the algorithm.
        steps = _gradwire("schedule", "ring", "-n", "3", "-x", "topk(0.01)")
        self.assertEqual(steps.returncode, 0, steps.stderr)

    def test_processes_send_their_schedules(self):
        for transport in ("shm", "tcp", "ucx"):
            self._expect_scheduled("ring", 3, 25_001, transport=transport)
            for spec in ("bf16", "efsign", "qsgd(bits=8)"):
                self._expect_scheduled("two_shot", 3, 25_001, "-x", spec, transport=transport)


if __name__ == "__main__":
    unittest_main.main()
