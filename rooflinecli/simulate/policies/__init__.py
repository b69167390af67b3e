"""How a step is formed: `compose(replica)` gives the chunks of prompts in it and whether decodes ride along. One file is one scheduler."""
