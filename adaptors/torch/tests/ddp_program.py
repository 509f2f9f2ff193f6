"""What test_ddp runs on two ranks, and three: ddp_program.py SCENARIO..."""

import ddp_checkpoints
import ddp_failures
import ddp_handles
import ddp_options
import ddp_refusals
import ddp_training
import ddp_unused
import scenarios

if __name__ == "__main__":
    scenarios.run(*map(vars, (ddp_training, ddp_unused, ddp_options, ddp_checkpoints, ddp_handles,
                              ddp_refusals, ddp_failures)))
