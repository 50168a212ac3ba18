# distq with its extras, and the controllers of workers/ and examples/. It runs any command of distq:
#   docker build -t distq . && docker run --rm distq --help
# Your own controllers: FROM distq, COPY foos.py /srv/, and run "worker foos".
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY deploy/build-requirements.txt deploy/requirements.txt deploy/
# what is not in the lock files, or not what they say, is not installed, and no package's own code runs
RUN python3 -m venv /build && /build/bin/pip install --require-hashes --only-binary :all: -r deploy/build-requirements.txt
RUN python3 -m venv /venv && /venv/bin/pip install --require-hashes --only-binary :all: -r deploy/requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY distq distq
RUN /build/bin/pip wheel --no-index --no-deps --no-build-isolation -w /wheels . \
    && /venv/bin/pip install --no-index --no-deps /wheels/*.whl && /venv/bin/pip check

FROM ${BASE}
COPY --from=build /venv /venv
COPY workers /srv/workers
COPY examples /srv/examples
WORKDIR /srv
ENV PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 1000:1000
ENTRYPOINT ["distq"]
