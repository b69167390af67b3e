"""`roofline rl`: a step of RL post-training, composed of the simulator, the training estimate and the collectives."""
