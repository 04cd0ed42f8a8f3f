-- Jobs that want few cores first; among these, who has waited longest.  Nodes with high ranks first.
policy {
    backfill = "easy",
    priority = function(job, now)
        return -job.ncores
    end,
    score = function(job, node)
        return node.rank
    end,
}
