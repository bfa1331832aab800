//! What clients that use all that they may cost a server: descriptors and threads, to the number.
use crate::hostile::local::{self, Ended};
use crate::hostile::single;
use crate::hostile::{Client, Target};
use crate::server::{NULL, Server, Usage, wait_until};
use crate::{ZONED, connect_and_read};
use rustix::event::{EventfdFlags, eventfd};
use zonal_nvme::NvmeStatus;

/// Descriptors and threads.
fn held(usage: Usage) -> (usize, usize) {
    (usage.descriptors, usage.threads)
}

/// Ten controllers, each with an admin queue and an I/O queue that was used.
fn ten_controllers(target: &Target) -> Vec<(Client, Client)> {
    (0..10).map(|_| connect_and_read(target)).collect()
}

#[test]
fn connection_has_two_descriptors_and_a_thread() {
    let server = Server::start(&[NULL]);
    let (descriptors, threads) = held(server.idle_usage());
    let controllers = ten_controllers(&server.target);
    assert_eq!(held(server.idle_usage()), (descriptors + 40, threads + 20));
    drop(controllers);
    wait_until("they are gone", || held(server.usage()) == (descriptors, threads));
}

#[test]
fn hardware_queues_of_an_image_have_a_descriptor_each_and_are_kept_for_the_next() {
    let server = Server::on_image(ZONED, &[]);
    let (descriptors, threads) = held(server.idle_usage());
    for _ in 0..3 {
        let controllers = ten_controllers(&server.target);
        assert_eq!(held(server.idle_usage()), (descriptors + 40 + 10, threads + 20));
        drop(controllers);
        wait_until("they are gone", || held(server.usage()) == (descriptors + 10, threads));
    }
}

#[test]
fn completion_queues_of_a_virtual_machine_are_32_with_a_descriptor_and_a_thread_each() {
    let (server, victim) = Server::with_shared_exports(ZONED, &[]);
    let before = held(server.idle_usage());
    let mut monitor = local::Monitor::connect(&victim).expect("a monitor");
    let memory = monitor.enable().expect("a controller");
    let (descriptors, threads) = held(server.idle_usage());
    let statuses = monitor.create_queues(&memory, 33).expect("completions");
    let (refused, created) = statuses.split_last().expect("33");
    assert_eq!((created, *refused), (&[0; 32][..], NvmeStatus::INVALID_QUEUE.code().0));
    assert_eq!(held(server.idle_usage()), (descriptors + 32, threads + 32));
    drop(monitor);
    wait_until("it is gone", || held(server.usage()) == before);
}

#[test]
fn rings_of_a_virtual_machine_have_four_descriptors_and_a_thread_each() {
    let (server, victim) = Server::with_rings(3);
    let before = held(server.idle_usage());
    let mut monitor = single::Monitor::connect(&victim).expect("a monitor");
    monitor.share(&local::memory(1 << 20).expect("memory"), 1 << 20).expect("it is sent");
    let event = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let mut start = |ring| {
        // The server may disconnect between the messages of a ring that it refuses.
        let started = monitor.start_ring(ring, Some(&event), Some(&event));
        Ended::of(started.and_then(|()| monitor.wait())).expect("an end")
    };
    // The first eventfd of the process has it open a descriptor to signal all.
    assert_eq!(start(0), Ended::Served);
    let (descriptors, threads) = held(server.idle_usage());
    assert_eq!([start(1), start(2)], [Ended::Served; 2]);
    assert_eq!(held(server.idle_usage()), (descriptors + 8, threads + 2));
    assert_eq!(start(3), Ended::Disconnected, "there are 3");
    wait_until("it is gone", || held(server.usage()) == (before.0 + 1, before.1));
}
