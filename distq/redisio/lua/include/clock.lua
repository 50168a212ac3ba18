-- in: max_clock_step, meta, sessions
-- out: clock
-- The claim clock. A lost clock was at most one claim duration before the earliest deadline.
local clock = tonumber(call('HGET', meta, 'clock'))
if not clock or not (clock >= 0 and clock < 2 ^ 53) then
  local earliest = call('ZRANGEBYSCORE', sessions, '(0', 2 ^ 53, 'WITHSCORES', 'LIMIT', '0', '1')[2]
  clock = math.max(0, (tonumber(earliest) or 0) - 3 * max_clock_step)
end
