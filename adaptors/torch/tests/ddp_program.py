"""What test_ddp runs on two ranks, and three: ddp_program.py SCENARIO..."""

import ddp_misuse
import ddp_options
import ddp_state
import ddp_training
import ddp_unused
import scenarios

if __name__ == "__main__":
    scenarios.run(*map(vars, (ddp_training, ddp_unused, ddp_options, ddp_state, ddp_misuse)))
