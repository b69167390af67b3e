# read by `roofline estimate --from`:
# roofline: --hw h100 --prompt 2048 --output 512
vllm serve meta-llama/Llama-3.3-70B-Instruct \
  --tensor-parallel-size 4 \
  --dtype bfloat16 \
  --max-model-len 2560 \
  --max-num-seqs 32
