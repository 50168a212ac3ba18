# distq with its extras, and the controllers of workers/. It runs any command of distq:
#   docker build -t distq . && docker run --rm distq --help
# Your own controllers: FROM distq, COPY foos.py /srv/, and run "worker foos".
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
RUN python3 -m venv /venv
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY distq distq
RUN /venv/bin/pip install --no-cache-dir '.[all,demo]'

FROM ${BASE}
COPY --from=build /venv /venv
COPY workers /srv/workers
WORKDIR /srv
ENV PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 1000:1000
ENTRYPOINT ["distq"]
