  -- in: alone, arrivals, bounded, flows, held_back, n_suspects, popped, processing, ready
  -- out: nothing
  -- If a flow ends before the last claimed order, it continues at that order. If nothing is ready, no flow continues;
  -- if there are no claims, suspects or held-back items either, no arrivals are needed. The claim of a suspect changes
  -- no flow.
  local last = alone == 0 and popped[#popped]
  if last then
    local _, exponent = math.frexp(tonumber(last))
    call('ZREMRANGEBYSCORE', flows, math.ldexp(0.5, exponent), last)
  end
  if call('ZCARD', ready) == 0 then
    call('UNLINK', flows)
    local n_held_back = bounded and call('ZCARD', held_back) or 0
    if call('ZCARD', processing) + n_suspects + n_held_back == 0 then
      call('UNLINK', arrivals)
      if bounded then
        --- @include drop_entries
      end
    end
  end
