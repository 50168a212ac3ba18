  -- in: dead, delayed, dispositions, others, settlements, split_due
  -- out: dispositions
  -- The state of each item that was settled without success: its due time in ms, `parked`, or `pending`.
  dispositions = {}
  local names = {}
  for i = others + 1, #settlements, 6 do names[#names + 1] = settlements[i] end
  local later, parked = call('ZMSCORE', delayed, unpack(names)), call('ZMSCORE', dead, unpack(names))
  for i = 1, #names do
    if later[i] then
      dispositions[i] = string.format('%.0f', split_due(tonumber(later[i])) / 1000)
    else
      dispositions[i] = parked[i] and 'parked' or 'pending'
    end
  end
