"""`gradwire run` with real processes, and the test network with real traffic."""

import functools
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from tests.lib import networks
from tools import unittest_main

_GRADWIRE = os.path.join(os.environ["TEST_SRCDIR"], "gradwire", "cli", "gradwire")
_SENDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "netlab", "shaped_sender.py")
_LIMIT_S = 60


def _run(*args, **kwargs):
    """The finished process, with its output as text."""
    return subprocess.run(
        [_GRADWIRE, "run", *args], capture_output=True, text=True, timeout=_LIMIT_S, **kwargs
    )


def _shell(script, *options):
    return _run(*options, "--", "/bin/bash", "-c", script)


def _close_when_full(write_end):
    """This process's end of a pipe that somebody else writes to."""
    while select.select([], [write_end], [], 0)[1]:
        time.sleep(0.01)
    os.close(write_end)


class RunTest(unittest.TestCase):
    def test_tells_every_rank_who_it_is(self):
        job = _shell("echo $GRADWIRE_RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR", "-n", "3")
        self.assertEqual(job.returncode, 0, job.stderr)
        lines = sorted(job.stdout.splitlines())
        expected = ["0/3 0 127.0.0.1", "[1] 1/3 1 127.0.0.1", "[2] 2/3 2 127.0.0.1"]
        self.assertEqual(lines, expected)

    def test_all_ranks_share_a_secret_and_a_place_to_meet(self):
        job = _shell("echo $GRADWIRE_SECRET $GRADWIRE_ROOT", "-n", "2")
        first, second = (line.removeprefix("[1] ") for line in job.stdout.splitlines())
        self.assertEqual(first, second)
        self.assertRegex(first, r"^[0-9a-f]{64} 127\.0\.0\.1:\d+$")

    def test_a_port_that_somebody_has_set_does_not_disturb_it(self):
        command = ("-n", "2", "--", _GRADWIRE, "perf", "-b", "1K", "-n", "1", "-w", "1")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "gradwire.toml"), "w", encoding="utf-8") as settings:
                settings.write("port = 29600\n")
            for changes in ({"env": {**os.environ, "GRADWIRE_PORT": "29600"}}, {"cwd": folder}):
                job = _run(*command, **changes)
                self.assertEqual(job.returncode, 0, job.stderr)

    def test_keeps_output_and_error_apart(self):
        job = _shell("echo out; echo err >&2", "-n", "2")
        self.assertEqual(sorted(job.stdout.splitlines()), ["[1] out", "out"])
        self.assertEqual(sorted(job.stderr.splitlines()), ["[1] err", "err"])

    def test_a_line_of_rank_0_stays_one_however_long_it_is(self):
        job = _shell("head -c 200000 /dev/zero | tr '\\0' x; echo", "-n", "1")
        self.assertEqual(job.stdout, 200000 * "x" + "\n")

    def _expect_124_where_nobody_reads(self, script):
        read_end, write_end = os.pipe()
        command = [_GRADWIRE, "run", "-n", "2", "--timeout", "2", "--", "/bin/bash", "-c", script]
        job = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True,
                             timeout=_LIMIT_S, check=False)
        os.close(write_end)
        self.assertEqual(job.returncode, 124, job.stderr)
        self.assertIn("time-out", job.stderr)
        with open(read_end, "rb") as reader:
            self.assertGreaterEqual(len(reader.read()), 4096)

    def test_ends_after_the_timeout_where_nobody_reads(self):
        self._expect_124_where_nobody_reads("exec yes")
        self._expect_124_where_nobody_reads("head -c 100000 /dev/zero")

    def test_a_signal_ends_it_where_nobody_reads(self):
        read_end, write_end = os.pipe()
        with subprocess.Popen([_GRADWIRE, "run", "-n", "1", "--", "yes"], stdout=write_end) as job:
            _close_when_full(write_end)
            job.send_signal(signal.SIGTERM)
            self.assertEqual(job.wait(_LIMIT_S), 128 + signal.SIGTERM)
        os.close(read_end)

    def test_a_slow_reader_gets_all(self):
        """Longer after the ranks have ended than output is read of those that never end."""
        command = [_GRADWIRE, "run", "-n", "1", "--", "/bin/bash", "-c", "yes | head -n 90000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as job:
            time.sleep(2.5)
            self.assertEqual(job.stdout.read(), 90000 * b"y\n")
            self.assertEqual(job.wait(_LIMIT_S), 0)

    def test_a_writer_that_stays_behind_keeps_no_job(self):
        """It left the group that is killed, and writes as fast as a slow reader reads."""
        command = [_GRADWIRE, "run", "-n", "1", "--", "/bin/bash", "-c", "setsid yes & sleep 0.5"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as job:
            end = time.monotonic() + _LIMIT_S
            while job.poll() is None and time.monotonic() < end:
                job.stdout.read1(4096)
            self.assertEqual(job.returncode, 0)

    def test_output_that_does_not_block_loses_nothing(self):
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        script = "for ((i = 0; i < 40000; ++i)); do echo line $i; done"
        command = [_GRADWIRE, "run", "-n", "1", "--", "/bin/bash", "-c", script]
        with subprocess.Popen(command, stdout=write_end) as job:
            _close_when_full(write_end)
            with open(read_end, encoding="utf-8") as reader:
                self.assertEqual(reader.read(), "".join(f"line {i}\n" for i in range(40000)))
            self.assertEqual(job.wait(_LIMIT_S), 0)

    def test_output_that_cannot_be_written_is_told_of_once(self):
        script = "for i in 1 2 3; do echo $i; sleep 0.1; done"
        command = [_GRADWIRE, "run", "-n", "1", "--", "/bin/bash", "-c", script]
        with open("/dev/full", "w", encoding="utf-8") as full:
            job = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True,
                                 timeout=_LIMIT_S, check=False)
        self.assertEqual(job.returncode, 1)
        self.assertEqual(job.stderr.count("cannot write standard output"), 1, job.stderr)
        self.assertIn("No space left on device", job.stderr)

    def test_what_cannot_be_is_refused_before_the_start(self):
        for options, words in ((["--netlab", ""], "--netlab: its value is empty"),
                               (["--netlab", "1gbit", "--counters", "/no/such"], "'/no/such'")):
            job = _run("-n", "1", *options, "--", "/bin/echo", "started")
            self.assertNotEqual(job.returncode, 0, options)
            self.assertIn(words, job.stderr)
            self.assertEqual(job.stdout, "")

    def test_closed_outputs_are_no_hang(self):
        for redirection, code in ((">&-", 1), ("2>&-", 0), ("<&-", 0), (">&- 2>&- <&-", 1)):
            command = f'"$0" run -n 1 -- /bin/echo hi {redirection}'
            job = subprocess.run(["/bin/bash", "-c", command, _GRADWIRE], capture_output=True,
                                 text=True, timeout=_LIMIT_S, check=False)
            self.assertEqual(job.returncode, code, redirection)
            self.assertEqual(job.stdout, "hi\n" if code == 0 else "", redirection)

    @unittest.skipIf(len(os.sched_getaffinity(0)) % 2 != 0, "processors that do not come out even")
    def test_ranks_keep_to_processors_of_their_own(self):
        first, second = self._processors_of_ranks(2)
        self.assertTrue(first.isdisjoint(second), (first, second))
        self.assertEqual(first | second, os.sched_getaffinity(0))

    def test_ranks_share_all_processors_where_told_to_or_where_these_do_not_come_out_even(self):
        usable = os.sched_getaffinity(0)
        for ranks, options in ((2, ["--no-bind"]), (len(usable) + 1, [])):
            self.assertEqual(self._processors_of_ranks(ranks, *options), [usable] * ranks)

    def _processors_of_ranks(self, ranks, *options):
        job = _run("-n", str(ranks), *options, "--", sys.executable, "-c",
                   "import os; print('on', *os.sched_getaffinity(0))")
        self.assertEqual(job.returncode, 0, job.stderr)
        return [set(map(int, line.partition("on ")[2].split())) for line in job.stdout.splitlines()]

    def test_finds_itself_in_path(self):
        job = _run("-n", "2", "--", "gradwire", "--version")
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertIn("[1] gradwire ", job.stdout)

    def test_only_rank_0_has_input(self):
        job = _run("-n", "2", "--", "cat", input="text\n")
        self.assertEqual(job.stdout, "text\n")

    def test_returns_the_exit_code_of_the_first_rank_that_fails(self):
        script = "[[ $RANK == 2 ]] && exit 7; read -r < /dev/tcp/none/1 || exec sleep 100"
        job = _shell(script, "-n", "3", "--grace", "0")
        self.assertEqual(job.returncode, 7)
        self.assertIn("rank 2", job.stderr)
        self.assertIn("exit code 7", job.stderr)

    def test_a_signal_is_128_more(self):
        job = _shell("kill -KILL $$", "-n", "1")
        self.assertEqual(job.returncode, 128 + signal.SIGKILL)
        self.assertIn("killed by signal 9", job.stderr)

    def test_a_ucx_that_cannot_be_loaded_is_told_of_between_hosts(self):
        """At the default level, once; where ranks share a host nobody needs it."""
        script = '{}exec "$@"'
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "libucp.so.0"), "w", encoding="utf-8") as file:
                file.write("no library")
            environment = {**os.environ, "LD_LIBRARY_PATH": folder}
            for hosts, lines in (("GRADWIRE_HOST_ID=$GRADWIRE_RANK ", 1), ("", 0)):
                job = _run("-n", "2", "--", "sh", "-c", script.format(hosts), "sh", _GRADWIRE,
                           "perf", "-b", "1K", "-n", "1", "-w", "0", env=environment)
                self.assertEqual(job.returncode, 0, job.stderr)
                for words in ("takes tcp and passes over ucx", "libucp.so.0: file too short"):
                    self.assertEqual(job.stderr.count(words), lines, job.stderr)

    def test_the_others_may_report_first(self):
        # Rank 1 fails; rank 0 ends by itself within the grace and is not terminated.
        script = "[[ $RANK == 1 ]] && exit 3; sleep 0.2; echo reported"
        job = _shell(script, "-n", "2", "--grace", "50")
        self.assertEqual((job.returncode, job.stdout), (3, "reported\n"))
        self.assertNotIn("SIGTERM", job.stderr)

    def test_ranks_hear_of_one_that_dies_before_it_joins(self):
        # Whoever it is; they report within the grace, and nobody has to be terminated.
        for dead in range(3):
            script = f"[[ $RANK == {dead} ]] && kill -9 $$; exec gradwire perf -b 4K --transport tcp"
            with self.subTest(dead=dead):
                begin = time.monotonic()
                job = _shell(script, "-n", "3", "--grace", "50")
                self.assertLess(time.monotonic() - begin, 20)
                self.assertEqual(job.returncode, 128 + signal.SIGKILL)
                said = f"rank {dead} was killed by signal 9 (Killed) before it had joined"
                self.assertEqual(job.stderr.count(said), 2, job.stderr)

    def test_ends_after_the_timeout(self):
        job = _run("-n", "2", "--timeout", "0.2", "--", "sleep", "100")
        self.assertEqual(job.returncode, 124)
        self.assertIn("time-out: ranks 0, 1", job.stderr)

    def _with_few_open_files(self, soft, hard):
        limit = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        return _run("-n", "40", "--", "/bin/bash", "-c", "ulimit -Sn", preexec_fn=limit)

    def test_opens_more_files_than_its_ranks_may(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        job = self._with_few_open_files(64, hard)
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertEqual({line.split()[-1] for line in job.stdout.splitlines()}, {"64"})

    def test_too_few_files_are_all_that_it_tells_of(self):
        job = self._with_few_open_files(64, 64)
        self.assertEqual(job.returncode, 1)
        self.assertIn("cannot open a pipe", job.stderr)
        self.assertEqual(len(job.stderr.splitlines()), 1, job.stderr)

    def test_a_misspelt_option_is_told_before_the_one_that_is_missing(self):
        job = _run("--rank", "2", "--", "true")
        self.assertEqual(job.returncode, 2)
        self.assertIn("not expected: --rank 2. Did you mean '--ranks'?", job.stderr)

    def test_np_of_mpirun_is_named(self):
        for args, hint in ((["-np", "2"], "-n 2"), (["-np"], "-n N")):
            job = _run(*args, "--", "true")
            self.assertEqual(job.returncode, 2)
            self.assertEqual(job.stderr.count("\n"), 1, job.stderr)
            self.assertIn("-n here, not -np", job.stderr)
            self.assertTrue(job.stderr.endswith(f". Write {hint}\n"), job.stderr)
        self.assertEqual(_run("-n", "1", "--", "echo", "-np", "2").stdout, "-np 2\n")

    def test_the_help_has_one_usage(self):
        text = _run("--help").stdout
        self.assertEqual(text.lower().count("usage:"), 1, text)
        self.assertIn("Usage: gradwire run -n N [OPTIONS] -- COMMAND [ARGS]\n", text)

    def test_what_all_ranks_refuse_is_told_once(self):
        for args in (["-G", "1"], ["--no-such-option"], ["--transport", "tcpp"]):
            job = _run("-n", "3", "--", "gradwire", "perf", *args)
            self.assertEqual(job.returncode, 2)
            told = [line.split("] ")[-1] for line in job.stderr.splitlines()]
            self.assertEqual(len(told), len(set(told)), job.stderr)
            self.assertIn("gradwire perf: ", job.stderr)

    def test_refuses_what_cannot_be_started(self):
        for args in (["-n", "2", "--", "no-such-program"], ["-n", "2"], ["--", "true"]):
            self.assertEqual(_run(*args).returncode, 2, args)
        self.assertIn("no-such-program", _run("-n", "2", "--", "no-such-program").stderr)
        self.assertEqual(_run("-n", "2", "--netlab", "fast", "--", "true").returncode, 2)
        for option in ("--timeout", "--grace"):
            for seconds in ("1e10", "nan", "-1"):
                self.assertEqual(_run("-n", "1", option, seconds, "--", "true").returncode, 2)
        later = ["--netlab", "1gbit", "--netlab-then", "1=fast"]
        self.assertEqual(_run("-n", "1", *later, "--", "true").returncode, 2)
        self.assertEqual(_run("-n", "1", "--netlab-then", "1=1gbit", "--", "true").returncode, 2)

    def test_learns_of_ends_that_whoever_started_it_ignores(self):
        ignore = functools.partial(signal.signal, signal.SIGCHLD, signal.SIG_IGN)
        job = _run("-n", "2", "--", "/bin/bash", "-c", "exit 3", preexec_fn=ignore)
        self.assertEqual(job.returncode, 3, job.stderr)

    def _expect_nothing_survives(self, *options):
        """Every process of the job holds the write end of a pipe: its end is theirs."""
        read_end, write_end = os.pipe()
        script = "trap '' TERM INT HUP; sleep 1000 & echo ready; wait; wait"
        command = [_GRADWIRE, "run", "-n", "2", *options, "--", "/bin/bash", "-c", script]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, pass_fds=[write_end]
        ) as job:
            os.close(write_end)
            for _ in range(2):
                self.assertIn("ready", job.stdout.readline())
            job.kill()
            signal.alarm(_LIMIT_S)
            self.assertEqual(os.read(read_end, 1), b"")
            signal.alarm(0)
            job.stdout.read()
        os.close(read_end)

    def test_nothing_survives_the_launcher(self):
        self._expect_nothing_survives()

    @unittest.skipUnless(networks.can_make(), "this process may not make network namespaces")
    def test_no_network_survives_the_launcher(self):
        links = os.listdir("/sys/class/net")
        self._expect_nothing_survives("--netlab", "1gbit,delay=1ms")
        self.assertEqual(os.listdir("/sys/class/net"), links)

    def test_without_the_right_to_make_networks_it_says_so_and_runs(self):
        command = [_GRADWIRE, "run", "-n", "2", "--netlab", "1gbit", "--", "/bin/bash", "-c",
                   "echo $GRADWIRE_INTERFACE $GRADWIRE_HOST_ID ${GRADWIRE_NETLAB-none}"]
        if os.geteuid() == 0:
            command = ["setpriv", "--bounding-set=-sys_admin", *command]
        elif networks.can_make():
            self.skipTest("this process may make network namespaces")
        job = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_LIMIT_S)
        self.assertIn("NOT SHAPED to 1gbit", job.stderr)
        self.assertEqual(sorted(job.stdout.splitlines()), ["[1] lo 1 none", "lo 0 none"])


@unittest.skipUnless(networks.can_make(), "this process may not make network namespaces")
class NetlabTest(unittest.TestCase):
    def test_every_rank_is_a_host_of_its_own(self):
        job = _shell("echo $(ls /sys/class/net) $GRADWIRE_HOST_ID $GRADWIRE_INTERFACE "
                     "$GRADWIRE_NETLAB $GRADWIRE_ROOT", "-n", "2", "--netlab", "1gbit")
        lines = sorted(job.stdout.splitlines())
        self.assertEqual(lines[0].split(" ", 2)[0:2], ["[1]", "e0"], job.stderr)
        self.assertTrue(lines[0].endswith(" 1 e0 1gbit 10.77.0.1:29400"), lines)
        self.assertTrue(lines[1].endswith(" 0 e0 1gbit 10.77.0.1:29400"), lines)

    def test_ranks_hear_of_rates_to_come(self):
        job = _shell("echo $GRADWIRE_NETLAB", "-n", "1", "--netlab", "1gbit", "--netlab-then",
                     "20=100mbit", "--netlab-then", "40=1gbit")
        self.assertEqual(job.stdout, "1gbit, then 20=100mbit, 40=1gbit\n", job.stderr)

    def test_a_delay_holds_what_is_sent_and_not_how_much(self):
        job = _run("-n", "2", "--netlab", "100mbit,delay=10ms", "--", sys.executable, _SENDER, "echo")
        self.assertEqual(job.returncode, 0, job.stderr)
        there_and_back_ms = float(job.stdout)
        self.assertGreaterEqual(there_and_back_ms, 20)
        self.assertLess(there_and_back_ms, 40)  # the least of ten, also on a busy machine
        self._expect_shaped("ring", links=4, link="100mbit,delay=10ms")
        self._expect_shaped("incast", links=1, link="100mbit,delay=10ms")

    def _rates(self, pattern, link):
        """Measured goodput of each rank's link in Mbit/s, and the counters."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "counters.json")
            job = _run("-n", "4", "--netlab", link, "--counters", path, "--",
                       sys.executable, _SENDER, pattern)
            self.assertEqual(job.returncode, 0, job.stderr)
            with open(path, encoding="utf-8") as file:
                counters = json.load(file)
        rates = [float(line.split()[-1]) for line in job.stdout.splitlines()]
        return rates, counters

    def _expect_shaped(self, pattern, links, link="100mbit"):
        """A busy machine can make a link slower, never faster: how much slower is no property of
        the link, so the lower bound only tells a rate from one with another unit."""
        rates, counters = self._rates(pattern, link)
        payload_mbit = 100 * 1448 / 1514  # of a full frame
        self.assertEqual(len(rates), links)
        self.assertLess(max(rates), 1.1 * payload_mbit)
        self.assertGreater(min(rates), 0.3 * payload_mbit)
        return counters

    def test_the_shaper_has_the_rate_and_a_burst_of_at_most_2_ms_of_it(self):
        job = _shell("PATH=$PATH:/usr/sbin tc -j qdisc show dev $GRADWIRE_INTERFACE",
                     "-n", "1", "--netlab", "100mbit")
        (shaper,) = json.loads(job.stdout)
        self.assertEqual((shaper["kind"], shaper["root"]), ("tbf", True))
        bytes_per_s = 100_000_000 / 8
        self.assertEqual(shaper["options"]["rate"], bytes_per_s)
        self.assertLessEqual(shaper["options"]["burst"], 0.002 * bytes_per_s)

    def test_the_rate_changes_when_it_is_told_to(self):
        wait = ("PATH=$PATH:/usr/sbin; for rate in 12500000 25000000; do "
                "until tc -j qdisc show dev $GRADWIRE_INTERFACE | grep -q '\"rate\":'$rate,; "
                "do sleep 0.01; done; done")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "counters.json")
            job = _shell(wait, "-n", "2", "--netlab", "1gbit", "--netlab-then", "1=200mbit",
                         "--netlab-then", "0.2=100mbit", "--counters", path)
            self.assertEqual(job.returncode, 0, job.stderr)
            with open(path, encoding="utf-8") as file:
                changes = json.load(file)["rate_changes"]
        self.assertEqual([change["rate"] for change in changes], ["100mbit", "200mbit"])
        self.assertLess(changes[0]["at_s"], changes[1]["at_s"])
        self.assertLess(changes[1]["at_s"], time.monotonic())

    def test_segments_fit_into_the_burst_of_the_rate_that_a_link_falls_to(self):
        show = "PATH=$PATH:/usr/sbin ip -d -j link show dev $GRADWIRE_INTERFACE"
        for later, longest in (("9=100mbit", 0.002 * 100e6 / 8), ("9=10gbit", 65536)):
            job = _shell(show, "-n", "1", "--netlab", "1gbit", "--netlab-then", later)
            (link,) = json.loads(job.stdout)
            self.assertLessEqual(link["gso_max_size"], longest, later)

    def test_what_waits_in_a_link_passes_when_its_rate_falls(self):
        """A segment longer than the new burst would stay for ever, and all behind it: in half of the
        jobs there was one."""
        for _ in range(3):
            job = _run("-n", "4", "--timeout", "40", "--netlab", "1gbit",
                       "--netlab-then", "0.6=100mbit", "--", sys.executable, _SENDER, "bursts")
            self.assertEqual(job.returncode, 0, job.stderr)
            self.assertEqual(len(job.stdout.splitlines()), 4)

    def test_sending_and_receiving_are_shaped(self):
        counters = self._expect_shaped("ring", links=4)
        self.assertEqual(counters["netlab"], "100mbit")
        for rank in counters["ranks"]:
            for direction in ("tx_bytes", "rx_bytes"):
                self.assertGreater(rank[direction], 8_000_000)
                self.assertLess(rank[direction], 1.15 * 8_000_000)

    def test_a_receiver_is_shaped_though_its_senders_are_not_full(self):
        self._expect_shaped("incast", links=1)


if __name__ == "__main__":
    unittest_main.main()
