        -- in: flow_items, limit, must_wait, suspect
        -- out: must_wait
        -- A suspect waits, too, for the end of a claim of its flow; the next claim that ends then lets in no other
        -- item.
        --- @include flow_entry
        --- @include flow_counts
        must_wait = count(flow_of(suspect)) >= limit
        if must_wait then call('ZADD', flow_items, '0', entry_of('l', suspect)) end
