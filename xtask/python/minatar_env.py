"""Registers the environments of MinAtar with Gymnasium, as which `gymnasium:minatar_env:MinAtar/NAME` finds them."""

import minatar.gym

minatar.gym.register_envs()
