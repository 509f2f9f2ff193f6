"""What test_fsdp2 runs on two replicas of one or two ranks: fsdp2_program.py SCENARIO..."""

import fsdp2_failures
import fsdp2_gradients
import fsdp2_ignored
import fsdp2_roots
import fsdp2_scatter
import fsdp2_state
import fsdp2_steps
import fsdp2_training
import scenarios

if __name__ == "__main__":
    scenarios.run(*map(vars, (fsdp2_gradients, fsdp2_state, fsdp2_failures, fsdp2_steps,
                              fsdp2_roots, fsdp2_ignored, fsdp2_scatter, fsdp2_training)))
