// Elector competes for a Lease with client-go's leader election, for tests beside distq's.
//
// It prints what happens to it, with the time in nanoseconds of the machine's monotonic clock: "NS leading",
// "NS working" ten times a second while it leads, "NS stopped", "NS sees IDENTITY". A line on standard input,
// or its end, makes it stop; then it releases the Lease if -release is given.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"golang.org/x/sys/unix"
)

var (
	kubeconfig = flag.String("kubeconfig", "", "the file with the access")
	namespace  = flag.String("namespace", "default", "the Lease's namespace")
	lease      = flag.String("lease", "", "the Lease's name")
	identity   = flag.String("identity", "client-go", "who it is")
	duration   = flag.Duration("lease-duration", 15*time.Second, "")
	deadline   = flag.Duration("renew-deadline", 10*time.Second, "")
	period     = flag.Duration("retry-period", 2*time.Second, "")
	release    = flag.Bool("release", false, "free the Lease at the end")
)

func main() {
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	exitOn(err)
	config.Timeout = *deadline / 2
	clients, err := kubernetes.NewForConfig(config)
	exitOn(err)

	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		cancel()
	}()
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: *namespace, Name: *lease},
			Client:     clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: *identity},
		},
		LeaseDuration:   *duration,
		RenewDeadline:   *deadline,
		RetryPeriod:     *period,
		ReleaseOnCancel: *release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: work,
			OnStoppedLeading: func() { say("stopped") },
			OnNewLeader:      func(identity string) { say("sees " + identity) },
		},
	})
}

func work(ctx context.Context) {
	say("leading")
	for ctx.Err() == nil {
		say("working")
		time.Sleep(100 * time.Millisecond)
	}
}

func say(what string) {
	var now unix.Timespec
	exitOn(unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	fmt.Printf("%d %s\n", now.Nano(), what)
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
