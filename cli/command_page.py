"""The examples of docs/commands.md, for the tests that run them."""

import re
import shlex

_PAGE = "docs/commands.md"


def examples(section):
    """Arguments of `gradwire`, for each command of a section that needs no test network."""
    with open(_PAGE, encoding="utf-8") as file:
        text = re.search(rf"^## {section}\n(.*?)^## ", file.read(), re.DOTALL | re.MULTILINE)
    shell = "".join(re.findall(r"```sh\n(.*?)```", text.group(1), re.DOTALL))
    lines = shell.replace("\\\n", "").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines if "--netlab" not in line]
    for command in commands:
        if command and command[0] != "gradwire":
            raise ValueError(f"not an example of gradwire: {command}")
    return [command[1:] for command in commands if command]


def expect_examples_work(case, section, gradwire, words):
    """Runs all examples with gradwire(*arguments), in the test `case`: each ends well and says
    `words`."""
    found = examples(section)
    case.assertGreaterEqual(len(found), 1)
    for example in found:
        done = gradwire(*example)
        case.assertEqual(done.returncode, 0, " ".join(example) + done.stderr)
        case.assertIn(words, done.stdout)
