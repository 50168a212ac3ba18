  -- What became of each settled item that was no success: its due time in ms, parked, or pending.
  fates = {}
  local told = {}
  for i = others + 1, #settlements, 6 do told[#told + 1] = settlements[i] end
  local later, parked = call('ZMSCORE', delayed, unpack(told)), call('ZMSCORE', dead, unpack(told))
  for i = 1, #told do
    if later[i] then
      fates[i] = string.format('%.0f', split_due(tonumber(later[i])) / 1000)
    else
      fates[i] = parked[i] and 'parked' or 'pending'
    end
  end
