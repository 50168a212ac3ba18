-- What became of each settlement that was no success: its due time in ms, parked, or pending.
local function fates()
  local list = {}
  for i = others + 1, #settlements, 6 do
    local due = call('ZSCORE', delayed, settlements[i])
    if due then
      list[#list + 1] = string.format('%.0f', split_due(tonumber(due)) / 1000)
    else
      list[#list + 1] = call('ZSCORE', dead, settlements[i]) and 'parked' or 'pending'
    end
  end
  return list
end
