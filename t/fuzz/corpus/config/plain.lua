session {
    hosts = "node[0-3]",
    address = "tcp://%h:8050",
    curve = false,
    limit = 1.5,
    attrs = { ["hb.period"] = 2, verbose = true },
}
