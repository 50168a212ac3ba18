  -- in: meta, now, now_text
  -- out: delay_of, keep_buckets
  -- A limiter is a program in postfix notation, times in µs: `exp 5000 1e9 bucket 10 100 maxof 2`.
  -- Source: client-go workqueue default_rate_limiters; golang.org/x/time/rate Reserve for the bucket.
  local TEN_YEARS = 315576000 * 1000000
  -- A turn reads and writes each bucket once, for any number of failures.
  local buckets = {}
  local function tokens_left(field, per_second, capacity)
    local left, at = string.match(call('HGET', meta, field) or '', '^(%S+) (%S+)$')
    left = tonumber(left)
    if not left or not (math.abs(left) < 2 ^ 53) then return capacity end
    local elapsed = math.max(0, now - (tonumber(at) or now)) / 1000000
    return math.min(capacity, left + elapsed * per_second)
  end
  local function keep_buckets()
    for field, left in pairs(buckets) do call('HSET', meta, field, string.format('%.17g %s', left, now_text)) end
  end
  local function reserve(rate, burst)
    if rate == 'inf' then return 0 end
    local field = 'bucket ' .. rate .. ' ' .. burst
    local per_second, capacity = tonumber(rate), tonumber(burst)
    if capacity < 1 then return TEN_YEARS end
    local left = (buckets[field] or tokens_left(field, per_second, capacity)) - 1
    buckets[field] = left
    if left >= 0 then return 0 end
    return -left / per_second * 1000000 -- infinite if the rate is 0; below it becomes ten years
  end
  local function delay_of(program, count)
    local stack = {}
    local next_word = string.gmatch(program, '%S+')
    for word in next_word do
      if word == 'fixed' then
        stack[#stack + 1] = tonumber(next_word())
      elseif word == 'exp' then
        local first, most = tonumber(next_word()), tonumber(next_word())
        -- bounded: 0 times infinity is no number, which a later command would refuse, and Redis does not roll back
        stack[#stack + 1] = math.min(first * 2 ^ math.min(count - 1, 1000), most)
      elseif word == 'fastslow' then
        local fast, slow, attempts = tonumber(next_word()), tonumber(next_word()), tonumber(next_word())
        stack[#stack + 1] = count <= attempts and fast or slow
      elseif word == 'bucket' then
        stack[#stack + 1] = reserve(next_word(), next_word())
      elseif word == 'maxof' then
        for _ = 2, tonumber(next_word()) do
          local top = table.remove(stack)
          stack[#stack] = math.max(stack[#stack], top)
        end
      elseif word == 'maxwait' then
        stack[#stack] = math.min(stack[#stack], tonumber(next_word()))
      end
    end
    return math.min(stack[1], TEN_YEARS)
  end
