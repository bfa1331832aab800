# Of arch/um/drivers/virtio_uml.c. Servers that send no requests of their own leave it without an interrupt, and pipes
# are what comes nearest to eventfds; it has sockets. The interrupt is kept, to be freed when a device goes. Devices come
# and go while the kernel runs.
/^static int vu_setup_vq_call_fd\(/i extern int pipe2(int fds[2], int flags);
s/um_request_irq\(vu_dev->irq, info->call_fd/um_request_irq(vu_dev->irq ?: UM_IRQ_ALLOC, info->call_fd/
/vu_interrupt, IRQF_SHARED, info->name, vq\);/a \	if (rc > 0) vu_dev->irq = rc;
s/os_pipe\(call_fds, true, true\)/pipe2(call_fds, 02000000 \/* O_CLOEXEC *\/)/
/^device_param_cb\(/s/S_IRUSR/0600/
