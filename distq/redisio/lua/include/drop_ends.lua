  -- in: alone, arrivals, flows, n_suspects, popped, processing, ready
  -- out: nothing
  -- A flow that ends before what was claimed goes on from there. Where nothing is ready no flow goes on; and where
  -- nothing is claimed either, nothing has arrived. A suspect ends no flow.
  local last = alone == 0 and popped[#popped]
  if last then
    local _, exponent = math.frexp(tonumber(last))
    call('ZREMRANGEBYSCORE', flows, math.ldexp(0.5, exponent), last)
  end
  if call('ZCARD', ready) == 0 then
    call('UNLINK', flows)
    if call('ZCARD', processing) + n_suspects == 0 then call('UNLINK', arrivals) end
  end
