# One image with both binaries, linked statically, on nothing but the certificates of public authorities and the licences of
# all that is linked in.
#
#   docker build --tag registry.example.com/depguard:0.1.0 .
#
# Its pods say which binary they run: /depguard-webhook or /depguard-controller.
FROM rust:1.95-alpine AS build
# A C compiler is all that the dependencies want; it is also the linker.
RUN apk add --no-cache build-base ca-certificates-bundle
WORKDIR /depguard
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/depguard/target \
    .ci/auditable build --release --locked --package depguard-webhook --package depguard-controller \
      --features depguard-webhook/bin,depguard-controller/bin \
 && mkdir /out \
 && cp target/release/depguard-webhook target/release/depguard-controller /out/ \
 && .ci/licences /out/licences "$(rustc --print host-tuple)"

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/ /
# The same user as in the chart. Nothing is written.
USER 65532:65532
