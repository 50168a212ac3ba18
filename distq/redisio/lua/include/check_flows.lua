-- in: arrivals, by_flow, flows
-- out: nothing
-- A script that writes before an item enters by its flow reads the types of what that writes first.
if by_flow then
  call('ZCARD', flows)
  call('HLEN', arrivals)
end
