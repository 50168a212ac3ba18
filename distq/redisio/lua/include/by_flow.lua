-- in: fair_by, meta
-- out: bounded, by_flow, entered, entering, into_flows, passed
-- Where the queue is fair, each flow has its turn (start-time fair queueing); a flow is the text of a key before its
-- first slash. An item enters `ready` not by its time but by its flow: at the order of the first ready item of its
-- priority, or at the end of its flow if that is later; the flow then ends a µs later. So a claim goes by the order
-- as ever. The order by time is in `arrivals`, as long as the item is ready or claimed.
-- `to namespace` is a queue that becomes fair while items wait; see `include/enter`.
-- `bounded` is there where its flows have, or had, a limit; see `include/flow_bound`. It is read apart, since other
-- queues would pay for one more field of an HMGET.
local bounded = fair_by and call('HGET', meta, 'bounded')
local by_flow, into_flows, entering, entered, passed
if fair_by == 'namespace' or fair_by == 'to namespace' then
  --- @include into_flows
  by_flow = into_flows
  if fair_by == 'to namespace' then
    --- @include not_yet
  end
end
