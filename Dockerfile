# leat without GDAL, in an image of nothing else:
#   docker build -t leat --build-arg COMMIT="$(git describe --always --dirty)" .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" leat info scene.tif
# Dockerfile.gdal makes one with GDAL.
FROM golang:1.26-bookworm AS build
ARG COMMIT=
WORKDIR /src
COPY . .
RUN make static COMMIT="$COMMIT" && mkdir -p /root-of-image/bin /root-of-image/data /root-of-image/etc/ssl/certs && \
	cp bin/leat-static /root-of-image/bin/leat && \
	cp /etc/ssl/certs/ca-certificates.crt /root-of-image/etc/ssl/certs/ && \
	install -d -m 1777 /root-of-image/tmp

FROM scratch
COPY --from=build /root-of-image /
# A user without a home directory stages remote inputs below /tmp.
ENV HOME=/tmp PATH=/bin
WORKDIR /data
ENTRYPOINT ["/bin/leat"]
