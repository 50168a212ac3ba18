package oracle

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

type limiter = workqueue.TypedRateLimiter[string]

// parseLimiter makes the real limiter of a program in postfix notation, times in µs: "exp 5000 1000000000 bucket 10.0
// 100 maxof 2". The word "default" is client-go's default, "item-default" that of single items.
func parseLimiter(program string, skew *time.Duration) (limiter, error) {
	var stack []limiter
	words := strings.Fields(program)
	next := func() (word string) {
		word, words = words[0], words[1:]
		return word
	}
	number := func() float64 {
		value, err := strconv.ParseFloat(next(), 64)
		if err != nil {
			panic(err)
		}
		return value
	}
	duration := func() time.Duration { return time.Duration(number() * float64(time.Microsecond)) }
	for len(words) > 0 {
		switch word := next(); word {
		case "default":
			stack = append(stack, workqueue.DefaultTypedControllerRateLimiter[string]())
		case "item-default":
			stack = append(stack, workqueue.DefaultTypedItemBasedRateLimiter[string]())
		case "exp":
			base, most := duration(), duration()
			stack = append(stack, workqueue.NewTypedItemExponentialFailureRateLimiter[string](base, most))
		case "fastslow":
			fast, slow, attempts := duration(), duration(), int(number())
			stack = append(stack, workqueue.NewTypedItemFastSlowRateLimiter[string](fast, slow, attempts))
		case "bucket", "skewed-bucket":
			limit, burst := rate.Limit(number()), int(number())
			if math.IsInf(float64(limit), 1) {
				limit = rate.Inf
			}
			bucket := workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(limit, burst)}
			if word == "bucket" {
				stack = append(stack, &bucket)
			} else {
				stack = append(stack, &skewedBucket{bucket, skew})
			}
		case "maxof":
			first := len(stack) - int(number())
			all := append([]limiter{}, stack[first:]...)
			stack = append(stack[:first], workqueue.NewTypedMaxOfRateLimiter(all...))
		case "maxwait":
			top := len(stack) - 1
			stack[top] = workqueue.NewTypedWithMaxWaitRateLimiter(stack[top], duration())
		default:
			return nil, fmt.Errorf("no limiter %q", word)
		}
	}
	return stack[0], nil
}

// skewedBucket reserves at a time that can be set back, which the bubble's clock cannot.
type skewedBucket struct {
	workqueue.TypedBucketRateLimiter[string]
	skew *time.Duration
}

func (b *skewedBucket) When(string) time.Duration {
	at := time.Now().Add(*b.skew)
	return b.ReserveN(at, 1).DelayFrom(at)
}

// recordingLimiter tells which delay a queue was given.
type recordingLimiter struct {
	limiter
	last time.Duration
}

func (r *recordingLimiter) When(key string) time.Duration {
	r.last = r.limiter.When(key)
	return r.last
}
