-- in: by_flow, ready
-- out: into_ready
local function into_ready(item, order)
  local zadd = { 'ZADD', ready, 'LT', order, item }
  if by_flow then by_flow(zadd) end
  call(unpack(zadd))
end
