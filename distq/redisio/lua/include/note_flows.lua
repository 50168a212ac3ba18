    -- in: flow_items, popped
    -- out: nothing
    --- @include flow_entry
    local claimed, let_in = { 'ZADD', flow_items }, { 'ZREM', flow_items }
    for i = 1, #popped, 2 do
      local item = popped[i]
      local flow = flow_of(item)
      claimed[i + 2], claimed[i + 3] = '0', flow .. '\0c' .. item
      let_in[#let_in + 1] = flow .. '\0l' .. item
    end
    call(unpack(claimed))
    call(unpack(let_in))
