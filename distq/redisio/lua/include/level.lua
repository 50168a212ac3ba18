          -- in: beyond, exponent, ready, text
          -- out: level
          -- The state of a priority: where it begins, and its flows. If no item of it is ready, it begins with the item
          -- that enters, and no flow has an end.
          local lowest = math.ldexp(0.5, exponent)
          local begins = call('ZRANGEBYSCORE', ready, lowest, beyond, 'WITHSCORES', 'LIMIT', '0', '1')[2]
          level = {
            is_empty = not begins,
            begins = begins or text,
            lowest = lowest,
            beyond = beyond,
            unit = math.ldexp(1, exponent - 53),
            name = (53 - exponent) .. ' ',
            places = {},
            starts = {},
          }
