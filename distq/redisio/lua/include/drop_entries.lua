        -- in: flow_items
        -- out: nothing
        -- Nothing is held back, so entries of claimed and let-in items are not needed. Remove at most 1000 per call.
        local entries = call('ZRANGEBYLEX', flow_items, '-', '+', 'LIMIT', '0', '1000')
        if #entries > 0 then call('ZREM', flow_items, unpack(entries)) end
