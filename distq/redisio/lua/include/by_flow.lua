-- in: fair_by, meta
-- out: bounded, by_flow, entered, entering, into_flows, passed
-- In a fair queue the flows take turns (start-time fair queueing); a flow is the text of a key before its first slash.
-- An item enters `ready` by its flow instead of its time: at the order of the first ready item of its priority, or at
-- the end of its flow if that is later; the flow then ends 1 µs later. So claims take the lowest order, as in any
-- queue. While the item is ready or claimed, `arrivals` has its order by time.
-- `to namespace` is a queue that becomes fair while items wait; see `include/enter`.
-- `bounded` exists if the flows have, or had, a limit; see `include/flow_bound`. A command of its own reads it, because
-- other queues would pay for one more field of an HMGET.
local bounded = fair_by and call('HGET', meta, 'bounded')
local by_flow, into_flows, entering, entered, passed
if fair_by == 'namespace' or fair_by == 'to namespace' then
  --- @include into_flows
  by_flow = into_flows
  if fair_by == 'to namespace' then
    --- @include not_yet
  end
end
