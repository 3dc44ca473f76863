# Spark on one machine with the data source, its jobs and the examples. Built from the root of the repository, on top of
# the services' image.
ARG BASE=headrace-base:trixie
ARG HEADRACE=headrace:dev

FROM ${HEADRACE} AS headrace

FROM ${BASE} AS assembled
WORKDIR /src
COPY .ci/uv.txt ./
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ca-certificates python3 python3-venv > /dev/null \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* && python3 -m venv /opt/uv \
    && SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
        /opt/uv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes --requirement uv.txt
ENV PATH=/opt/uv/bin:/usr/local/bin:/usr/bin:/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_NO_CACHE=1 UV_PYTHON=/usr/bin/python3 UV_PYTHON_DOWNLOADS=never \
    UV_PROJECT_ENVIRONMENT=/opt/headrace
COPY pyproject.toml uv.lock ./
# PyPI distributes Spark as source archives that contain the built jars. They are unpacked directly, because building a
# wheel takes minutes.
RUN uv export --quiet --frozen --only-group spark --no-emit-workspace --no-annotate \
        | sed -n '/^pyspark==/,/[^\\]$/p' > spark.txt \
    && /opt/uv/bin/pip download --quiet --no-cache-dir --no-deps --require-hashes --no-binary pyspark --requirement spark.txt \
    && mkdir /opt/spark && tar --extract --directory /opt/spark --strip-components 1 --file pyspark-*.tar.gz \
    && rm pyspark-*.tar.gz && cd /opt/spark && mv deps/jars deps/bin . && mkdir python && mv pyspark python/pyspark \
    # Support for Hive and Kubernetes is not needed on one machine.
    && rm -rf deps jars/hive-* jars/spark-hive* jars/kubernetes-* jars/spark-kubernetes* python/pyspark/tests
COPY --from=headrace /opt/headrace /opt/headrace
# The data source, and the dependencies of its jobs according to the lock file.
COPY spark spark
RUN uv sync --quiet --frozen --inexact --no-default-groups --group spark --no-editable --no-install-project \
        --no-install-package headrace-core --no-install-package pyspark

FROM ${BASE}
# Debian's Java packages need a directory for manuals, which the base image lacks.
RUN mkdir -p /usr/share/man/man1 && apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-21-jre-headless python3 > /dev/null \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
    && groupadd --gid 10001 headrace && useradd --uid 10001 --gid headrace --no-create-home --shell /usr/sbin/nologin headrace \
    # A volume takes the owner of the directory that it is first mounted on.
    && install -d -o headrace -g headrace -m 0700 /var/lib/spark
COPY --from=assembled /opt/spark /opt/spark
COPY --from=assembled /opt/headrace /opt/headrace
COPY compose/spark/run /usr/local/bin/run
COPY compose/spark/count.py examples/flights/delays.py /opt/example/
ENV PATH=/opt/headrace/bin:/opt/spark/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    SPARK_HOME=/opt/spark PYTHONPATH=/opt/spark/python PYSPARK_PYTHON=/opt/headrace/bin/python \
    SPARK_LOCAL_DIRS=/tmp SPARK_LOCAL_HOSTNAME=localhost
USER headrace
WORKDIR /var/lib/spark
ENTRYPOINT ["run"]
