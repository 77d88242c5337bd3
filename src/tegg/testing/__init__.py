"""The public test kit: checks that third-party compilers, ops and backends can run."""
