  -- in: arrivals, popped
  -- out: nothing
  -- The reply of a claim has each item's order by time; the claim keeps the place by flow.
  local function order_by_time()
    local names = {}
    for i = 1, #popped, 2 do names[#names + 1] = popped[i] end
    for i, order in ipairs(#names > 0 and call('HMGET', arrivals, unpack(names)) or names) do
      local score = tonumber(order or nil)
      if score and score >= 2 ^ -848 and score < 2 ^ 953 then popped[2 * i] = order end
    end
  end
  order_by_time()
