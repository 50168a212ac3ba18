-- in: arrivals, by_flow, flows
-- out: nothing
-- For scripts that write before an item enters by its flow: check the types of the keys that this will write.
if by_flow then
  call('ZCARD', flows)
  call('HLEN', arrivals)
end
