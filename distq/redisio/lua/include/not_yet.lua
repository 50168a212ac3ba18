    -- in: arrivals, entered, entering, into_flows, meta, passed, ready, suspects
    -- out: by_flow, entered, entering, passed
    -- While the queue becomes fair, all items of the set `entering` up to the order `entered` have a place by flow. A
    -- new item before that order gets one, too; a later one waits by its time until it enters. Suspects wait for no
    -- share.
    entering, entered, passed = string.match(call('HGET', meta, 'entered') or '', '^(%a+) (%S+) (%d+)$')
    local edge = tonumber(entered or nil)
    if not (edge and edge >= 2 ^ -848 and edge < 2 ^ 953 and #passed < 10) then
      entering, entered, passed, edge = 'ready', '5.327993384780537e-256', '0', 2 ^ -848 -- where orders begin
    end
    if entering == 'suspects' then edge = math.huge end
    by_flow = function(zadd)
      if zadd[2] == suspects then return into_flows(zadd) end
      local first, names = zadd[3] == 'XX' and 5 or 4, {}
      for at = first, #zadd, 2 do names[#names + 1] = zadd[at + 1] end
      local present, arrived = call('ZMSCORE', ready, unpack(names)), call('HMGET', arrivals, unpack(names))
      local early, places = { unpack(zadd, 1, first - 1) }, {}
      for n, name in ipairs(names) do
        local at = first + 2 * n - 2
        local order = tonumber(zadd[at])
        -- an item with a place by flow keeps one when it is raised
        if order < edge or (arrived[n] and present[n] and order < tonumber(present[n])) then
          places[#places + 1], early[#early + 1], early[#early + 2] = at, zadd[at], name
        end
      end
      if #places > 0 then into_flows(early) end
      for n, at in ipairs(places) do zadd[at] = early[first + 2 * n - 2] end
    end
