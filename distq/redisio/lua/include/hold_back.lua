      -- in: flow_items, held_back, limit
      -- out: hold_back, must_wait
      -- An item may be claimed if fewer than `limit` items of its flow are claimed, and no item of its flow with the
      -- same or a higher priority is held back. An item that was let in has waited with these, and need not wait for
      -- them again. An item is held back once for each time that it enters `ready`, and then delays no other.
      --- @include flow_entry
      --- @include flow_counts
      local some_are = call('ZCARD', held_back) > 0
      local claimed, first = {}, {}
      local to_held_back, entries, let_in = { 'ZADD', held_back }, { 'ZADD', flow_items }, { 'ZREM', flow_items }
      local function is_behind(flow, order)
        if first[flow] == math.huge then return false end
        local _, exponent = math.frexp(order)
        return first[flow] < math.ldexp(1, exponent)
      end
      local function is_held_back(item, order)
        local flow, number = flow_of(item), tonumber(order)
        if not claimed[flow] then
          claimed[flow], first[flow] = count(flow), math.huge
          if some_are then
            local _, first_order = first_held_back(flow)
            first[flow] = first_order or math.huge
          end
        end
        if claimed[flow] < limit and (not is_behind(flow, number) or call('ZSCORE', flow_items, entry_of('l', item))) then
          claimed[flow] = claimed[flow] + 1
          return false
        end
        first[flow] = math.min(first[flow], number)
        to_held_back[#to_held_back + 1], to_held_back[#to_held_back + 2] = order, item
        entries[#entries + 1], entries[#entries + 2] = '0', flow .. '\0w' .. struct.pack('>d', number) .. item
        let_in[#let_in + 1] = entry_of('l', item)
        return true
      end
      local function write()
        if #let_in == 2 then return end
        call(unpack(to_held_back))
        call(unpack(entries))
        call(unpack(let_in))
      end
      must_wait, hold_back = is_held_back, write
