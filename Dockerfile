# syntax=docker/dockerfile:1
# roofline in a box: docker build -t roofline . && docker run --rm roofline estimate llama70b --hw h100
# Alpine and wheels alone keep it under 200 MB; a user without rights runs it.
FROM python:3.12-alpine3.20 AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY rooflinecli ./rooflinecli
COPY hardware ./hardware
COPY models ./models
RUN python -m venv /opt/roofline \
    && /opt/roofline/bin/pip install --no-cache-dir --only-binary=numpy,pydantic-core,pyyaml,tree-sitter,tree-sitter-bash ".[serve,mcp]" \
    && /opt/roofline/bin/pip uninstall --yes pip \
    && find /opt/roofline -depth \( -name tests -o -name __pycache__ \) -type d -exec rm -rf {} +

FROM python:3.12-alpine3.20
COPY --from=build /opt/roofline /opt/roofline
RUN adduser -D -u 10001 roofline
USER 10001
WORKDIR /home/roofline
ENV PATH=/opt/roofline/bin:$PATH PYTHONDONTWRITEBYTECODE=1
EXPOSE 8765
ENTRYPOINT ["roofline"]
CMD ["--help"]
