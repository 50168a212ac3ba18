  -- What became of a settled item that was no success: its due time in ms, parked, or pending.
  local function fate(item)
    local due = call('ZSCORE', delayed, item)
    if due then return string.format('%.0f', split_due(tonumber(due)) / 1000) end
    return call('ZSCORE', dead, item) and 'parked' or 'pending'
  end
