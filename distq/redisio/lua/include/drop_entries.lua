        -- in: flow_items
        -- out: nothing
        -- Nothing is held back, so what is claimed or let in counts no longer; of much some goes at a time.
        local entries = call('ZRANGEBYLEX', flow_items, '-', '+', 'LIMIT', '0', '1000')
        if #entries > 0 then call('ZREM', flow_items, unpack(entries)) end
